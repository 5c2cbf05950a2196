"""What a compiled template reaches while it renders."""

from __future__ import annotations

import datetime
from typing import Any

from jinja2.runtime import Context

from spanparse.bounds.operations import Operations
from spanparse.rendering.cursor import Cursor


class RenderContext(Context):
    """A Jinja context with the state of its render: cursor, bounded operations and clock."""

    cursor: Cursor
    operations: Operations
    clock: datetime.datetime
    out: list[Any]

    def derived(self, locals: dict[str, Any] | None = None) -> RenderContext:
        """The context that Jinja makes for a function called inside a loop which has set variables."""
        context = super().derived(locals)
        assert isinstance(context, RenderContext)
        context.cursor = self.cursor
        context.operations = self.operations
        context.clock = self.clock
        context.out = self.out
        return context
