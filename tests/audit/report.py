"""Counts over the verdicts of an audit, and the list of pairs that are not as they should be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.audit.verdict import Verdict

from spanparse.ownership.rules import RULES


@dataclass(frozen=True, slots=True)
class Counts:
    """`rendered` pairs are those that the template renders; `not_exact` counts them by outcome and reason.

    `wrong` counts pairs, `checks` the pairs that each check found fault with, `renamed` what became of exact pairs
    under other names.
    """

    rendered: int
    exact: int
    not_exact: Counter[str]
    wrong: int
    checks: Counter[str]
    refused_by_template: int
    renamed: Counter[str]

    @property
    def exact_share(self) -> float:
        """The share of the rendered pairs that are exact, 0 to 1."""
        return self.exact / self.rendered if self.rendered else 0.0

    def share(self, reason: str) -> float:
        """The share of the rendered pairs with an outcome and reason such as `inexact: render-differs`."""
        return self.not_exact[reason] / self.rendered if self.rendered else 0.0


def count(verdicts: Iterable[Verdict]) -> Counts:
    """The counts over some verdicts."""
    rendered = exact = wrong = refused = 0
    not_exact: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    renamed: Counter[str] = Counter()
    for verdict in verdicts:
        wrong += bool(verdict.faults)
        checks.update({fault.check for fault in verdict.faults})
        if verdict.renamed is not None:
            renamed[verdict.renamed] += 1
        if verdict.outcome == "template refuses":
            refused += 1
            continue
        rendered += 1
        exact += verdict.outcome == "exact"
        if verdict.outcome != "exact":
            not_exact[f"{verdict.outcome}: {verdict.reason}"] += 1
    return Counts(rendered, exact, not_exact, wrong, checks, refused, renamed)


class Use(NamedTuple):
    """How many pairs with a generation prompt, and how many templates, a rule for owners decides something in."""

    rule: str
    pairs: int
    templates: int


def uses(verdicts: Iterable[Verdict]) -> list[Use]:
    """Each rule in the order in which they are applied, also those that decide nothing."""
    pairs: Counter[str] = Counter()
    templates: dict[str, set[str]] = {}
    for verdict in verdicts:
        pairs.update(verdict.rules)
        for rule in verdict.rules:
            templates.setdefault(rule, set()).add(verdict.template)
    return [Use(rule.id, pairs[rule.id], len(templates.get(rule.id, ()))) for rule in RULES]


class Row(NamedTuple):
    """A line of the table of counts: a number for each part, and its share of those that it is counted among."""

    label: str
    numbers: tuple[int, ...]
    shares: tuple[float | None, ...]


def rows(parts: Sequence[Counts]) -> list[Row]:
    """The table of counts, with a number for each of `parts`."""
    reasons = sorted({reason for counts in parts for reason in counts.not_exact})
    checks = sorted({check for counts in parts for check in counts.checks})
    compared = [sum(counts.renamed.values()) - counts.renamed["incomparable"] for counts in parts]
    return [
        _row("rendered by the template", [c.rendered for c in parts]),
        _row("exact", [c.exact for c in parts], [c.rendered for c in parts]),
        *(_row(reason, [c.not_exact[reason] for c in parts], [c.rendered for c in parts]) for reason in reasons),
        _row("wrong", [c.wrong for c in parts]),
        *(_row(f"wrong: {check}", [c.checks[check] for c in parts]) for check in checks),
        _row("refused by the template", [c.refused_by_template for c in parts]),
        _row("exact, and compared under other names", compared),
        _row("exact under other names", [c.renamed["exact"] for c in parts], compared),
        _row("incomparable under other names", [c.renamed["incomparable"] for c in parts]),
    ]


def _row(label: str, numbers: Sequence[int], among: Sequence[int] | None = None) -> Row:
    shares = [n / of if of else None for n, of in zip(numbers, among, strict=True)] if among else [None] * len(numbers)
    return Row(label, tuple(numbers), tuple(shares))


def write_findings(verdicts: Sequence[Verdict], path: Path) -> int:
    """Write a JSON line for each pair that is not exact, or wrong; returns how many there are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [v for v in verdicts if v.faults or v.outcome in ("inexact", "refused")]
    with path.open("w", encoding="utf-8") as file:
        for verdict in found:
            line = {
                **verdict._asdict(),
                "rules": sorted(verdict.rules),
                "faults": [fault._asdict() for fault in verdict.faults],
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return len(found)
