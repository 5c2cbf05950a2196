"""Checkpoints over time, as SVG: a column for each request, its prompt a bar, what was stored after it as dots."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from planner.simulation.outcome import Outcome

_WIDTH, _HEIGHT, _MARGIN = 960, 480, 48
_REUSED, _NEW, _REPLAYED, _STATE = "#d8dee9", "#88a9c3", "#d08770", "#2e3440"
_LEGEND = ((_REUSED, "reused"), (_NEW, "new"), (_REPLAYED, "evaluated again"), (_STATE, "checkpoint"))


def plot(outcomes: Sequence[Outcome], title: str) -> str:
    """An SVG document of one session's outcomes, in order."""
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=str(_WIDTH)
    )
    ElementTree.SubElement(svg, "title").text = title
    longest = max((outcome.length for outcome in outcomes), default=1)
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(outcomes))
    scale = (_HEIGHT - 2 * _MARGIN) / longest

    def height(tokens: float) -> float:
        return _HEIGHT - _MARGIN - tokens * scale

    for number, outcome in enumerate(outcomes):
        left = _MARGIN + number * step
        again = outcome.restored + outcome.replay
        for begin, end, colour in (
            (0, outcome.restored, _REUSED),
            (outcome.restored, again, _REPLAYED),
            (again, outcome.length, _NEW),
        ):
            if end > begin:
                _rect(svg, left, height(end), max(step * 0.9, 0.5), (end - begin) * scale, colour)
        for offset in outcome.kept:
            _rect(svg, left, height(offset) - 1, max(step * 0.9, 1.5), 2, _STATE)
    _text(svg, _MARGIN, _MARGIN / 2, title)
    _text(svg, 2, height(longest) + 4, f"{longest:,}")
    _text(svg, 2, height(0) + 4, "0")
    _text(svg, _MARGIN, _HEIGHT - 10, f"{len(outcomes)} requests")
    for place, (colour, name) in enumerate(_LEGEND):
        left = _WIDTH - _MARGIN - 130 * (len(_LEGEND) - place)
        _rect(svg, left, _HEIGHT - 20, 10, 10, colour)
        _text(svg, left + 16, _HEIGHT - 10, name)
    return ElementTree.tostring(svg, encoding="unicode")


def _rect(svg: ElementTree.Element, x: float, y: float, width: float, height: float, colour: str) -> None:
    numbers = {"x": x, "y": y, "width": width, "height": height}
    ElementTree.SubElement(svg, "rect", {name: f"{value:.2f}" for name, value in numbers.items()}, fill=colour)


def _text(svg: ElementTree.Element, x: float, y: float, text: str) -> None:
    fields = {"x": f"{x:.1f}", "y": f"{y:.1f}", "font-family": "sans-serif", "font-size": "12"}
    ElementTree.SubElement(svg, "text", fields).text = text
