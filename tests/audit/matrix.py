"""The support matrix, `docs/support.md`: what is exact for each shape and each format, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.audit.corpus import Template
from tests.audit.report import Counts, count, rows
from tests.audit.shapes import HELD_OUT_SHAPES, LONG, SHAPES
from tests.audit.verdict import Verdict

_BUNDLED: Final = "## Bundled templates"
_HEAD: Final = """\
# Support matrix

Written by `make audit`; the tests compare the table of the bundled templates with what the code does.

Each template meets each conversation shape with and without the generation prompt and with every setting of the
kwargs that it reads. A cell counts those pairs: *exact*, or *exact / inexact / refused by the template* where not all
are exact. A pair counts as inexact too if the template renders it and spanparse refuses, or if its spans are wrong.
What is wrong is computed apart from the parser: `tests/audit/oracle`.
"""
_PARTS: Final = """\
## In all

{tune} published templates and the bundled ones, which the rules were tuned on, with {shapes} shapes; and {held_out}
published templates that were held out, a fifth by the hash of their names, with {more} more shapes that no rule was
tuned on. Both are judged under other names for their control tokens as well, and as conversations that grow.
"""


def write_matrix(verdicts: Sequence[Verdict], templates: Mapping[str, Template], path: Path) -> None:
    """Write the page for an audit's verdicts; of held-out templates it has nothing but the counts."""
    tune = [v for v in verdicts if not templates[v.template].held_out]
    held_out = [v for v in verdicts if templates[v.template].held_out]
    published = [v for v in tune if not templates[v.template].bundled]
    sections = [
        _HEAD,
        _PARTS.format(
            tune=sum(not t.held_out and not t.bundled for t in templates.values()),
            held_out=sum(t.held_out for t in templates.values()),
            shapes=len(SHAPES),
            more=len(HELD_OUT_SHAPES),
        ),
        _totals([count(tune), count(held_out)]),
        bundled_section([v for v in tune if templates[v.template].bundled]),
        "## Published templates that are not held out, by format\n\n"
        + _grid(published, {n: t.format for n, t in templates.items()}),
    ]
    path.write_text("\n".join(sections), encoding="utf-8")


def bundled_section(verdicts: Iterable[Verdict]) -> str:
    """The part of the page that is about the bundled templates; the long shape is left out."""
    found = [verdict for verdict in verdicts if verdict.shape != LONG]
    return f"{_BUNDLED}\n\n" + _grid(found, {verdict.template: verdict.template for verdict in found})


def bundled_section_of(page: str) -> str:
    """That part of a written page."""
    return page[page.index(_BUNDLED) : page.index("\n## Published")]


def _totals(parts: Sequence[Counts]) -> str:
    lines = ["| pairs | tuned on | | held out | |", "|---|---:|---:|---:|---:|"]
    for label, numbers, shares in rows(parts):
        cells = [f"{n:,} | {'' if share is None else f'{share:.2%}'}" for n, share in zip(numbers, shares, strict=True)]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _grid(verdicts: Iterable[Verdict], columns: Mapping[str, str]) -> str:
    """A table with a row for each shape and a column for each value of `columns`, which is keyed by template."""
    cells: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        cells.setdefault((verdict.shape, columns[verdict.template]), []).append(verdict)
    shapes = [shape for shape in (*SHAPES, LONG) if any(key[0] == shape for key in cells)]
    names = sorted({key[1] for key in cells})
    rows = [f"| shape | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
    rows += [f"| {shape} | {' | '.join(_cell(cells.get((shape, name), [])) for name in names)} |" for shape in shapes]
    return "\n".join(rows) + "\n"


def _cell(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    refused = sum(verdict.outcome == "template refuses" for verdict in verdicts)
    exact = sum(verdict.outcome == "exact" and not verdict.faults for verdict in verdicts)
    inexact = len(verdicts) - refused - exact
    if refused == len(verdicts):
        return "refused"
    return f"{exact} / {inexact} / {refused}" if inexact or refused else f"{exact}"
