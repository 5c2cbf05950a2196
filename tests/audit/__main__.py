"""`python -m tests.audit`: judge the corpus, list what is not as it should be, write the support matrix."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.audit.case import Case
from tests.audit.corpus import Template, bundled, first_by_hash, published, sample
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.matrix import write_matrix
from tests.audit.report import Counts, count, write_findings
from tests.audit.runner import run
from tests.audit.shapes import LONG, SHAPES, conversation
from tests.audit.verdict import Verdict

_FINDINGS: Final = Path("build/audit/findings.jsonl")
_LONG_TEMPLATES: Final = 30


def main() -> int:
    """Returns 1 if anything is wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="judge one published template in N")
    parser.add_argument("--only", default="", help="judge the templates whose names hold this")
    parser.add_argument("--shape", action="append", help="judge this shape; repeatable")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the support matrix to this file")
    options = parser.parse_args()
    templates = [t for t in (*sample(published(), options.every), *bundled()) if options.only in t.name]
    verdicts = _judge(templates, options.shape or tuple(SHAPES), options.processes)
    if not options.shape and not options.only and options.every == 1:
        long = [*bundled(), *first_by_hash(published(), _LONG_TEMPLATES, _takes_long)]
        verdicts += _judge(long, (LONG,), options.processes)
    counts = count(verdicts)
    console = Console()
    console.print(_table(counts))
    console.print(f"{write_findings(verdicts, _FINDINGS)} pairs are listed in {_FINDINGS}")
    if options.write:
        write_matrix(verdicts, {template.name: template for template in templates}, options.write)
    return 1 if counts.wrong else 0


def _takes_long(template: Template) -> bool:
    case = Case(template.text, conversation(LONG, template.text), SPECIAL_TOKENS)
    return case.text(True) is not None


def _judge(templates: list[Template], shapes: tuple[str, ...], processes: int) -> list[Verdict]:
    verdicts: list[Verdict] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("templates", total=len(templates))
        for found in run(templates, shapes, processes=processes):
            verdicts += found
            progress.advance(task)
    return verdicts


def _table(counts: Counts) -> Table:
    table = Table("pairs", "", "of those that render", show_edge=False)
    table.add_row(f"{counts.rendered:,}", "rendered by the template", "")
    table.add_row(f"{counts.exact:,}", "exact", f"{counts.exact_share:.3%}")
    for reason, number in counts.not_exact.most_common():
        table.add_row(f"{number:,}", reason, f"{counts.share(reason):.3%}")
    table.add_row(f"{counts.wrong:,}", "wrong", "")
    for check, number in counts.checks.most_common():
        table.add_row(f"{number:,}", f"  {check}", "")
    table.add_row(f"{counts.refused_by_template:,}", "refused by the template", "")
    return table


if __name__ == "__main__":
    sys.exit(main())
