"""Which value of a request each character of the prompt came from, and where in the prompt each value stands."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from spanparse.marks.marked import Runs
from spanparse.marks.origin import Run, path_text
from spanparse.nesting import check_request
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import DEFAULT_LIMITS, Request, render_marked, render_plain
from spanparse.sources import TemplateSource
from spanparse.spans import Piece


@dataclass(frozen=True, slots=True)
class Source:
    """What the characters [start, end) of a prompt were made of: all around one that came from the same value.

    `path` names the value: `messages[3].tool_calls[0].function.arguments.city`. For the template's own text it names
    what the template was writing about, and is empty if that is nothing in particular. `offset` is where a verbatim
    copy begins in the value's own text; None for text that was computed (cased, escaped, serialised: a string in JSON
    has its quotes) and for template text.
    """

    start: int
    end: int
    path: str
    is_template_text: bool
    offset: int | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of a rendered prompt, both ways.

    `exact` is false where the marked render differed from the plain one: offsets then count in the marked text.
    """

    text: str = field(repr=False)
    exact: bool
    _runs: Runs = field(repr=False)

    def at(self, offset: int) -> Source:
        """What the character at `offset` came from. Raises IndexError outside the text.

        The stretch is the one that `where` gives for the same path, but for what came from values inside that.
        """
        if not 0 <= offset < len(self.text):
            raise IndexError(f"offset {offset} is outside the text of {len(self.text)} characters")
        runs = self._runs
        first = bisect_right(runs, offset, key=lambda run: run.start) - 1
        origin = runs[first].origin
        last = first
        while first and _goes_on(runs[first - 1], runs[first]):
            first -= 1
        while last + 1 < len(runs) and _goes_on(runs[last], runs[last + 1]):
            last += 1
        verbatim = not origin.literal and all(
            run.source >= 0 and run.source - run.start == runs[first].source - runs[first].start
            for run in runs[first : last + 1]
        )
        at = runs[first].source if verbatim else None
        return Source(runs[first].start, runs[last].end, path_text(origin.path), origin.literal, at)

    def where(self, path: str) -> tuple[Piece, ...]:
        """The stretches of the text that came from the value at `path` or from values inside it, in text order."""
        found: list[Piece] = []
        for run in self._runs:
            if run.origin.literal or not _is_inside(path_text(run.origin.path), path):
                continue
            if found and found[-1].end == run.start:
                found[-1] = Piece(found[-1].start, run.end)
            else:
                found.append(Piece(run.start, run.end))
        return tuple(found)


def _goes_on(run: Run, following: Run) -> bool:
    """Whether two runs that follow each other are one stretch of one value (or of the template's text for it)."""
    return run.origin == following.origin and run.end == following.start


def _is_inside(path: str, outer: str) -> bool:
    return path == outer or (path.startswith(outer) and path[len(outer)] in ".[")


def trace(template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS) -> Provenance:
    """Render `request` and keep the source of every character.

    Both renders share the `seconds` of `limits`. Raises what `parse` raises.
    """
    check_request(request.messages, request.tools, request.kwargs)
    limits = limits.started()
    name = template.source
    marked = render_marked(template.text, request, name=name, limits=limits, detailed=True)
    text = str.__str__(marked)
    runs = tuple(run for run in marked._runs if run.start < run.end)
    return Provenance(text, text == render_plain(template.text, request, name=name, limits=limits), runs)
