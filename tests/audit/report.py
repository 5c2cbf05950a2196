"""Counts over the verdicts of an audit, and the list of pairs that are not as they should be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.audit.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Counts:
    """`rendered` pairs are those that the template renders; `not_exact` counts them by outcome and reason.

    `wrong` counts pairs, `checks` the pairs that each check found fault with.
    """

    rendered: int
    exact: int
    not_exact: Counter[str]
    wrong: int
    checks: Counter[str]
    refused_by_template: int

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
    for verdict in verdicts:
        wrong += bool(verdict.faults)
        checks.update({fault.check for fault in verdict.faults})
        if verdict.outcome == "template refuses":
            refused += 1
            continue
        rendered += 1
        exact += verdict.outcome == "exact"
        if verdict.outcome != "exact":
            not_exact[f"{verdict.outcome}: {verdict.reason}"] += 1
    return Counts(rendered, exact, not_exact, wrong, checks, refused)


def write_findings(verdicts: Sequence[Verdict], path: Path) -> int:
    """Write a JSON line for each pair that is not exact, or wrong; returns how many there are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [v for v in verdicts if v.faults or v.outcome in ("inexact", "refused")]
    with path.open("w", encoding="utf-8") as file:
        for verdict in found:
            line = {**verdict._asdict(), "faults": [fault._asdict() for fault in verdict.faults]}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return len(found)
