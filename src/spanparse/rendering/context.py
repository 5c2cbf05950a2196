"""What a compiled template reaches while it renders."""

from __future__ import annotations

import datetime
from typing import Any

from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from spanparse.bounds.limits import BIG, SMALL
from spanparse.bounds.operations import Operations
from spanparse.marks.marked import Marked
from spanparse.rendering.cursor import Cursor


class RenderContext(Context):
    """A Jinja context with the state of its render: cursor, bounded operations and clock."""

    cursor: Cursor
    operations: Operations
    clock: datetime.datetime
    out: list[Any]

    def method(self, value: Any, name: str, *operands: Any) -> Any:
        """`value.name(*operands)`; quick for a method of texts that needs no bound on a short one."""
        kind = type(value)
        if (kind is str or kind is Marked) and len(value) <= BIG:
            keep = self.operations.meter.keep
            result = keep(getattr(value, name)(*operands))
            if type(result) in (list, tuple) and len(value) > SMALL:
                for piece in result:
                    keep(piece)
            return result
        environment = self.environment
        assert isinstance(environment, SandboxedEnvironment)
        return environment.call(self, environment.getattr(value, name), *operands)

    def derived(self, locals: dict[str, Any] | None = None) -> RenderContext:
        """The context that Jinja makes for a function called inside a loop which has set variables."""
        context = super().derived(locals)
        assert isinstance(context, RenderContext)
        context.cursor = self.cursor
        context.operations = self.operations
        context.clock = self.clock
        context.out = self.out
        return context
