"""What must hold of a rendering, computed from plain renders alone.

Each module has one check, a function from a `View` to the faults it found. None uses marks, provenance or anything else
of the code under test, but two compare its renderings with each other; what a check cannot decide it passes over.
"""

from __future__ import annotations

from typing import Final

from tests.audit.oracle.blanks import check_blanks
from tests.audit.oracle.borders import check_borders
from tests.audit.oracle.calls import check_calls
from tests.audit.oracle.changes import check_changes
from tests.audit.oracle.ends import check_ends
from tests.audit.oracle.generation import check_generation
from tests.audit.oracle.growth import check_growth
from tests.audit.oracle.neighbours import check_neighbours
from tests.audit.oracle.notes import check_notes
from tests.audit.oracle.sentinels import check_sentinels
from tests.audit.oracle.structure import check_structure
from tests.audit.oracle.turns import check_turns
from tests.audit.oracle.view import Fault, View
from tests.audit.oracle.words import check_words

__all__ = ["CHECKS", "Fault", "View", "faults_of"]

CHECKS: Final = (
    check_structure,
    check_generation,
    check_words,
    check_calls,
    check_notes,
    check_changes,
    check_sentinels,
    check_turns,
    check_borders,
    check_neighbours,
    check_ends,
    check_blanks,
    check_growth,
)
"""All checks, the cheapest first."""


def faults_of(view: View) -> list[Fault]:
    """What is wrong with a rendering.

    Faults of a message that is not called exact are left out, except those of the structure that every rendering has.
    """
    if view.rendering.text != view.text:
        return [Fault("text", None, "is not the plain render")]
    found = check_structure(view)
    if found:
        return found
    for check in CHECKS[1:]:
        found += [fault for fault in check(view) if fault.message is None or view.is_exact(fault.message)]
    return found
