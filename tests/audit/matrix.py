"""The support matrix, `docs/support.md`: what is exact for each shape and each format, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.audit.corpus import Template
from tests.audit.report import Counts, count
from tests.audit.shapes import LONG, SHAPES
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


def write_matrix(verdicts: Sequence[Verdict], templates: Mapping[str, Template], path: Path) -> None:
    """Write the page for an audit's verdicts."""
    counts = count(verdicts)
    published = [v for v in verdicts if not templates[v.template].bundled]
    sections = [
        _HEAD,
        _totals(counts, sum(not template.bundled for template in templates.values())),
        bundled_section([v for v in verdicts if templates[v.template].bundled]),
        "## Published templates, by format\n\n" + _grid(published, {n: t.format for n, t in templates.items()}),
    ]
    path.write_text("\n".join(sections), encoding="utf-8")


def bundled_section(verdicts: Iterable[Verdict]) -> str:
    """The part of the page that is about the bundled templates; the long shape is left out."""
    found = [verdict for verdict in verdicts if verdict.shape != LONG]
    return f"{_BUNDLED}\n\n" + _grid(found, {verdict.template: verdict.template for verdict in found})


def bundled_section_of(page: str) -> str:
    """That part of a written page."""
    return page[page.index(_BUNDLED) : page.index("\n## Published")]


def _totals(counts: Counts, published: int) -> str:
    lines = [
        f"## In all\n\n{published} published templates and the bundled ones, {len(SHAPES)} shapes.\n",
        "| pairs | | of those that render |",
        "|---:|---|---:|",
        f"| {counts.rendered:,} | rendered by the template | |",
        f"| {counts.exact:,} | exact | {counts.exact_share:.2%} |",
        *(f"| {n:,} | {reason} | {counts.share(reason):.2%} |" for reason, n in sorted(counts.not_exact.items())),
        f"| {counts.wrong:,} | wrong | |",
        f"| {counts.refused_by_template:,} | refused by the template | |",
    ]
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
