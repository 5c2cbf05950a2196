"""What a render is doing at this moment: whose text the template is writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

from jinja2.runtime import Undefined

from spanparse.bounds.limits import BIG
from spanparse.bounds.limits import LimitReached as LimitReached
from spanparse.bounds.limits import Limits as Limits
from spanparse.bounds.operations import Operations
from spanparse.marks.loss import Loss, fields_in, may_hold_any
from spanparse.marks.marked import Marked
from spanparse.marks.origin import GENERATION, NOWHERE, Origin
from spanparse.marks.tracked import origin_of, represent
from spanparse.spans import Piece


class Bare(NamedTuple):
    """Characters [start, end) without marks, put out when there had been so many `outputs`."""

    start: int
    end: int
    outputs: int


@final
class Findings:
    """What a marked render found out beside its text.

    `losses` are the operations that lost marks, `bare` the stretches of the text that have none. `outside` are those
    among the template's own that it did not state: the bare ones, and what came from template variables or the clock.
    `switches` says that the template asked for `add_generation_prompt` where it may do more than to add the text
    directly under it.
    """

    __slots__ = ("bare", "losses", "outside", "switches")

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.bare: list[Bare] = []
        self.outside: list[Piece] = []
        self.switches = False


@final
class Cursor:
    """State of one render, reached from the compiled template.

    `current` is the literal origin of the tracked value that the innermost loop over the request holds, `NOWHERE`
    outside. `detailed` asks for the origin of each value inside serialised tools and arguments. `out` is what the
    render puts out.
    """

    __slots__ = ("_findings", "_operations", "_out", "current", "detailed")

    def __init__(
        self, operations: Operations, findings: Findings, out: Sequence[Any], *, detailed: bool = False
    ) -> None:
        self.current = NOWHERE
        self.detailed = detailed
        self._operations = operations
        self._findings = findings
        self._out = out

    def lose(self, operation: str, *given: Any) -> None:
        """An operation made something without marks of what it was given: whatever of the request is in that."""
        if may_hold_any(*given):
            self.lose_all(operation)
        elif fields := fields_in(*given):
            self._findings.losses.append(Loss(fields, operation, len(self._out)))

    def lose_all(self, operation: str) -> None:
        """From here on an operation may lose the marks of anything."""
        self._findings.losses.append(Loss((), operation, len(self._out)))

    def switch(self) -> None:
        """The template asks for `add_generation_prompt`, and may do more than to add the text directly under it."""
        self._findings.switches = True

    def literal_origin(self, outer: Origin, value: Any) -> Origin:
        """The origin of what the template writes while a loop inside `outer` holds `value`."""
        origin = origin_of(value)
        return outer if origin is None or origin.is_outside else origin.as_literal()

    def literal(self, text: str) -> Marked:
        """The template's own `text`, written on behalf of the current value."""
        return Marked.whole(text, self.current)

    def generation(self, text: str) -> Marked:
        """The template's own `text`, written because a generation prompt was asked for."""
        return Marked.whole(text, GENERATION)

    def nothing(self, value: Any) -> str:
        """What a template puts out of `value` if that is white space; no mark of anything else."""
        return value.strip() if type(value) is Marked and (not value or value.isspace()) else ""

    def text(self, value: Any) -> Marked:
        """`str(value)`, without marks if it has none: an ordinary string would be the template's own text."""
        shown = self._operations.text(value)
        if type(shown) is Marked:
            return shown
        if not isinstance(value, (str, int, float, Undefined)) and value is not None:
            marked = represent(value) if type(value) in (list, tuple, dict) else shown
            if type(marked) is Marked:
                return marked
            self.lose("print", value)
        return Marked(shown)

    def joined(self, outputs: Sequence[Any]) -> Marked:
        """The text of a macro's or block's outputs, which `assembled` describes."""
        if len(outputs) == 2 and type(only := outputs[1]) is Marked:
            return only
        current = self.current
        parts: list[str] = []
        own: list[str] = []  # the template's own text, while it goes on
        for output in outputs:
            kind = type(output)
            if kind is Origin or kind is list:
                origin = output if kind is Origin else output[0]
                if own and origin is not current:
                    parts.append(self._own(own, current))
                    own = []
                current = origin
                continue
            for part in output if kind is tuple else (output,):
                kind = type(part)
                if kind is str or (kind is Marked and part._origin is current):
                    own.append(part)
                    continue
                if kind is not Marked:
                    if not isinstance(part, str):
                        raise TypeError(f"a template puts out text, not {kind.__name__}")
                    part = self.text(part)
                if own:
                    parts.append(self._own(own, current))
                    own = []
                parts.append(part)
        if not parts:
            return self._operations.meter.keep(self._own(own, current))
        if own:
            parts.append(self._own(own, current))
        text = self._operations.joined(parts)
        assert isinstance(text, Marked)
        return text

    def _own(self, texts: Sequence[str], current: Origin) -> Marked:
        """`texts` of the template's own as one."""
        size = sum(map(len, texts))
        if size > BIG:
            self._operations.meter.expect(size)
        return Marked.whole("".join(texts), current)
