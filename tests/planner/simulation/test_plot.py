from __future__ import annotations

from xml.etree import ElementTree

from planner.simulation.outcome import Outcome
from planner.simulation.plot import plot

SVG = "{http://www.w3.org/2000/svg}"


def outcome(restored: int, shared: int, *kept: int) -> Outcome:
    length = 1000
    return Outcome(False, length, length - restored, length - shared, restored, shared, 1, 1, None, kept, 0)


def colours(svg: str) -> list[str]:
    # The legend has four rectangles of its own.
    return [rect.attrib["fill"] for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect")][:-4]


def test_a_request_shows_what_was_reused_evaluated_again_and_new_and_what_is_stored() -> None:
    assert len(colours(plot([outcome(300, 500, 100, 300)], "t"))) == 3 + 2


def test_a_prompt_from_nothing_that_shared_nothing_is_all_new() -> None:
    assert len(set(colours(plot([outcome(0, 0)], "t")))) == 1


def test_a_title_with_markup_stays_text() -> None:
    title = ElementTree.fromstring(plot([], "<b>&")).find(f"{SVG}title")
    assert title is not None
    assert title.text == "<b>&"
