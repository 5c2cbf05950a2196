"""A rendering beside the case it was made of, and what is found wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

from tests.audit.case import Case
from tests.audit.fields import Field, fields
from tests.audit.vocabulary import words_in

from spanparse import Part, Rendering

PREAMBLE: Final = -1
GENERATION: Final = -2
NOBODY: Final = -3


class Fault(NamedTuple):
    """Something wrong: the check that says so, the index of the message, None for the rendering, and how."""

    check: str
    message: int | None
    detail: str


class View:
    """What a check looks at: the case, the plain text, and the rendering that is under test."""

    def __init__(self, case: Case, generation: bool, rendering: Rendering) -> None:
        text = case.text(generation)
        assert text is not None
        self.case = case
        self.generation = generation
        self.rendering = rendering
        self.text = text

    def is_exact(self, message: int) -> bool:
        """Whether the rendering calls the spans of a message exact."""
        return self.rendering.messages[message].exact

    def is_sure_of(self, owner: int) -> bool:
        """Whether the rendering calls exact what belongs to an owner, or what does not; the prompt has no such word."""
        return owner < 0 or owner >= len(self.rendering.messages) or self.is_exact(owner)

    @cached_property
    def owners(self) -> list[int]:
        """The owner of each character: a message index, `PREAMBLE`, `GENERATION` or `NOBODY`."""
        owners = [NOBODY] * len(self.text)
        for start, end, owner in self.stretches:
            owners[start:end] = [owner] * (end - start)
        return owners

    @cached_property
    def stretches(self) -> list[tuple[int, int, int]]:
        """(start, end, owner) of every piece, the preamble and the generation prompt, in text order."""
        rendering = self.rendering
        found = [(piece.start, piece.end, m.index) for m in rendering.messages for piece in m.pieces]
        if rendering.preamble.end > rendering.preamble.start:
            found.append((rendering.preamble.start, rendering.preamble.end, PREAMBLE))
        if rendering.generation_prompt is not None:
            found.append((*rendering.generation_prompt, GENERATION))
        return sorted(found)

    @cached_property
    def fields(self) -> list[list[Field]]:
        """The strings of each message."""
        return [list(fields(message)) for message in self.case.messages]

    @cached_property
    def homes(self) -> dict[str, set[int]]:
        """The messages that each word stands in, keys of arguments included; names and ids are left out."""
        borrowed = {word for field in self._all_fields() if field.borrowed for word in words_in(field.value)}
        homes: dict[str, set[int]] = {}
        for index, message in enumerate(self.case.messages):
            for word in words_in(repr(message)):
                if word not in borrowed:
                    homes.setdefault(word, set()).add(index)
        return homes

    @cached_property
    def tool_words(self) -> dict[str, set[int]]:
        """The tools that each word stands in."""
        homes: dict[str, set[int]] = {}
        for index, tool in enumerate(self.case.conversation.tools or ()):
            for word in words_in(repr(tool)):
                homes.setdefault(word, set()).add(index)
        return homes

    @cached_property
    def tools_parts(self) -> list[Part]:
        """The tools blocks, in whosever span they stand."""
        parts = [part for message in self.rendering.messages for part in message.parts]
        return [part for part in (*self.rendering.preamble.parts, *parts) if part.kind == "tools"]

    @cached_property
    def visible(self) -> set[int]:
        """The messages of which a word that stands in no other message or tool is in the text."""
        shown = set(words_in(self.text))
        return {
            next(iter(home))
            for word, home in self.homes.items()
            if word in shown and len(home) == 1 and word not in self.tool_words
        }

    def always_begins(self, index: int, text: str) -> bool:
        """Whether every message of the role of `index` begins with `text`: then it belongs to them by the rule.

        So must the generation prompt if the role is the assistant's and the flag adds one.
        """
        role = self.case.messages[index]["role"]
        for message in self.rendering.messages:
            if message.role == role and message.pieces and not self.text.startswith(text, message.pieces[0].start):
                return False
        with_prompt, without = self.case.text(True), self.case.text(False)
        if role == "assistant" and with_prompt and without is not None and with_prompt.startswith(without):
            prompt = with_prompt[len(without) :]
            return not prompt or prompt.startswith(text)
        return True

    def _all_fields(self) -> Iterator[Field]:
        for message in self.fields:
            yield from message


def owner_name(owner: int) -> str:
    """An owner in words."""
    return {PREAMBLE: "the preamble", GENERATION: "the generation prompt", NOBODY: "nobody"}.get(
        owner, f"messages[{owner}]"
    )
