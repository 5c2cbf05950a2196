"""One template with one conversation, and the plain renders that tell what must hold for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.audit import plain
from tests.audit.shapes import Conversation

Message = dict[str, Any]

_PROBES: Final = 12


@dataclass(slots=True)
class Case:
    """A template, a conversation and the template's kwargs; renders of it are kept."""

    template: str
    conversation: Conversation
    kwargs: Mapping[str, Any]
    _renders: dict[tuple[str, int, bool], str | None] = field(default_factory=dict, repr=False)

    @property
    def messages(self) -> list[Message]:
        """The messages of the conversation."""
        return self.conversation.messages

    @property
    def probes(self) -> list[int]:
        """The messages that checks which render anew for each message look at: all, or a dozen of a long list."""
        count = len(self.messages)
        if count <= 2 * _PROBES:
            return list(range(count))
        return sorted({place * (count - 1) // (_PROBES - 1) for place in range(_PROBES)})

    def text(self, generation: bool) -> str | None:
        """The prompt; None if the template refuses the conversation."""
        return self._render("whole", 0, generation, self.messages)

    def text_before(self, index: int) -> str | None:
        """What the messages before `index` give alone, without a generation prompt."""
        return self._render("before", index, False, self.messages[:index])

    def text_with(self, index: int, message: Message, generation: bool) -> str | None:
        """The prompt with another message at `index`; which one, must depend on `index` alone."""
        changed = [*self.messages[:index], message, *self.messages[index + 1 :]]
        return self._render("with", index, generation, changed)

    def text_of(self, messages: list[Message], generation: bool) -> str | None:
        """The prompt of other messages."""
        try:
            return plain.render(self.template, messages, self.conversation.tools, self.kwargs, generation)
        except plain.Refused:
            return None

    def _render(self, what: str, index: int, generation: bool, messages: list[Message]) -> str | None:
        key = (what, index, generation)
        if key not in self._renders:
            self._renders[key] = self.text_of(messages, generation)
        return self._renders[key]
