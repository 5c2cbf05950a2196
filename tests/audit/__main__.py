"""`python -m tests.audit`: judge the corpus, list what is not as it should be, write the support matrix.

Of what is held out it tells the counts alone: rules that were tuned on it would leave nothing to tell how they do
elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.audit.case import Case
from tests.audit.corpus import Template, bundled, elsewhere, first_by_hash, published, sample
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.matrix import write_matrix
from tests.audit.report import Counts, count, rows, uses, write_findings
from tests.audit.runner import run
from tests.audit.shapes import LONG, conversation, drawn_shapes
from tests.audit.verdict import Verdict

_FINDINGS: Final = Path("build/audit/findings.jsonl")
_LONG_TEMPLATES: Final = 30


def main() -> int:
    """Returns 1 if anything is wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("--part", choices=("all", "tune", "held-out"), default="all")
    parser.add_argument("--templates", type=Path, help="judge the templates in this folder, not the published ones")
    parser.add_argument("--every", type=int, default=1, help="judge one template in N")
    parser.add_argument("--only", default="", help="judge the templates whose names hold this")
    parser.add_argument("--shape", action="append", help="judge this shape; repeatable")
    parser.add_argument("--random", type=int, default=0, help="judge N random conversations a template, not the shapes")
    parser.add_argument("--seed", type=int, default=0, help="other random conversations for another one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the support matrix to this file")
    options = parser.parse_args()
    corpus = elsewhere(options.templates) if options.templates else [*published(), *bundled()]
    parts = ("tune", "held-out") if options.part == "all" else (options.part,)
    templates = [
        template
        for template in corpus
        if options.only in template.name
        and ("held-out" if template.held_out else "tune") in parts
        and (template.bundled or template in sample([template], options.every))
    ]
    shapes = drawn_shapes(options.seed, options.random) or options.shape
    verdicts = _judge(templates, shapes, options.processes)
    if options.write:
        long = [*bundled(), *first_by_hash(published(), _LONG_TEMPLATES, _takes_long)]
        verdicts += _judge(long, (LONG,), options.processes)
    held_out = {template.name for template in templates if template.held_out}
    listed = [verdict for verdict in verdicts if verdict.template not in held_out]
    hidden = [verdict for verdict in verdicts if verdict.template in held_out]
    console = Console()
    console.print(_table({"elsewhere" if options.templates else "tune": count(listed), "held out": count(hidden)}))
    table = Table("rule", "pairs", "templates", show_edge=False)
    for rule, pairs, used in uses(verdicts):
        table.add_row(rule, f"{pairs:,}", f"{used:,}")
    console.print(table)
    console.print(f"{write_findings(listed, _FINDINGS)} pairs that are not held out are listed in {_FINDINGS}")
    if options.write:
        write_matrix(verdicts, {template.name: template for template in templates}, options.write)
    return 1 if count(verdicts).wrong else 0


def _takes_long(template: Template) -> bool:
    case = Case(template.text, conversation(LONG, template.text), SPECIAL_TOKENS)
    return case.text(True) is not None


def _judge(templates: list[Template], shapes: Sequence[str] | None, processes: int) -> list[Verdict]:
    verdicts: list[Verdict] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("templates", total=len(templates))
        for found in run(templates, shapes, processes=processes):
            verdicts += found
            progress.advance(task)
    return verdicts


def _table(parts: Mapping[str, Counts]) -> Table:
    shown = {name: counts for name, counts in parts.items() if counts.rendered}
    table = Table("pairs", *(column for name in shown for column in (name, "")), show_edge=False)
    for label, numbers, shares in rows(list(shown.values())):
        cells = [(f"{n:,}", "" if share is None else f"{share:.3%}") for n, share in zip(numbers, shares, strict=True)]
        table.add_row(label, *(cell for pair in cells for cell in pair))
    return table


if __name__ == "__main__":
    sys.exit(main())
