"""Renaming: under opaque names for its control tokens, a template gives each character the owner that it had.

The tokens are the tokenizer's added ones if they are known, else what looks like one in the template's constants, and
the special tokens that callers pass. They are renamed everywhere alike: in the template, in the special tokens and in
texts of the conversation that quote them. So a template that splits a text at `</think>` goes the same way as before.
Whether it does is not assumed: the renamed prompt must be the prompt with its tokens renamed. A token that the template
also puts together (`'<|' + role + '|>'`) keeps its name; where the prompts still differ, nothing can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from tests.audit.case import Case
from tests.audit.corpus import Template
from tests.audit.fields import replaced
from tests.audit.literals import control_tokens
from tests.audit.oracle.view import Fault, View, owner_name
from tests.audit.shapes import Conversation
from tests.audit.subject import parse_case, source_of

from spanparse import TemplateError

STYLES: Final = ("<|x{}|>", "[X{}]", "<x{}>")
"""The kinds of opaque names; a token's number goes in."""


Renaming = Literal["exact", "inexact", "refused", "incomparable"]
"""What became of an exact rendering under other names; `incomparable` if its template goes another way then."""


class Renamed(NamedTuple):
    """What became of a rendering, and what is wrong with that."""

    outcome: Renaming
    faults: tuple[Fault, ...] = ()


def check_renamed(view: View, template: Template, style: int) -> Renamed:
    """The rendering of the renamed template beside that of the template; `style` numbers the kind of opaque names."""
    names = _Names.of(template, view.case.kwargs, STYLES[style % len(STYLES)])
    case = _renamed_case(view, names)
    if case is None:
        return Renamed("incomparable")
    names, other = case
    try:
        source = source_of(Template(template.name, other.template, template.bundled))
        renamed = View(other, view.generation, parse_case(source, other, view.generation))
    except TemplateError:
        return Renamed("refused", (Fault("renaming", None, "is refused under other names"),))
    outcome: Renaming = "exact" if renamed.rendering.exact else "inexact"
    return Renamed(outcome, tuple(_differences(view, renamed, names)))


@dataclass(frozen=True, slots=True)
class _Names:
    """The opaque name of each token."""

    of_token: Mapping[str, str]
    pattern: re.Pattern[str]

    @staticmethod
    def of(template: Template, kwargs: Mapping[str, Any], form: str) -> _Names:
        special = [value for name, value in kwargs.items() if name.endswith("_token")]
        tokens = dict.fromkeys((*(template.tokens or control_tokens(template.text)), *special))
        return _Names.make({token: form.format(number) for number, token in enumerate(tokens) if token})

    @staticmethod
    def make(of_token: Mapping[str, str]) -> _Names:
        longest_first = sorted(of_token, key=len, reverse=True)
        return _Names(of_token, re.compile("|".join(map(re.escape, longest_first)) or "(?!)"))

    def without(self, tokens: Iterable[str]) -> _Names:
        return _Names.make({token: name for token, name in self.of_token.items() if token not in set(tokens)})

    def rename(self, text: str) -> str:
        return self.pattern.sub(lambda found: self.of_token[found[0]], text)


def _renamed_case(view: View, names: _Names) -> tuple[_Names, Case] | None:
    """The renamed case, and the names of the tokens that have others in it; None if the template goes another way."""
    if any(name in view.text for name in names.of_token.values()):
        return None
    for _ in range(2):
        other = _rename_all(view.case, names)
        text = other.text(view.generation)
        if text == names.rename(view.text):
            return names, other
        if text is None:
            return None
        kept = [token for token in names.of_token if token in text and token in view.text]
        if not kept:
            return None
        names = names.without(kept)
    return None


def _rename_all(case: Case, names: _Names) -> Case:
    def rename(value: Any) -> Any:
        return replaced(value, lambda field: names.rename(field.value))

    conversation = Conversation(rename(case.messages), rename(case.conversation.tools))
    return Case(names.rename(case.template), conversation, rename(dict(case.kwargs)))


def _differences(view: View, renamed: View, names: _Names) -> list[Fault]:
    """The first character whose owners are not the same though both renderings are sure of them."""
    expected: list[int] = []
    places: list[int] = []
    at = 0
    for hit in names.pattern.finditer(view.text):
        expected += view.owners[at : hit.start()]
        places += range(at, hit.start())
        # A token has two owners only where a template writes it in halves.
        size = len(names.of_token[hit[0]])
        expected += [view.owners[hit.start()]] * (size - 1) + [view.owners[hit.end() - 1]]
        places += [hit.start()] * size
        at = hit.end()
    expected += view.owners[at:]
    places += range(at, len(view.text))
    if expected == renamed.owners:
        return []
    for place, was, now in zip(places, expected, renamed.owners, strict=True):
        if was != now and all(v.is_sure_of(owner) for v in (view, renamed) for owner in (was, now)):
            what = repr(view.text[place : place + 40])
            detail = f"{what} at {place} is {owner_name(was)}'s, under other names {owner_name(now)}'s"
            return [Fault("renaming", max(was, 0), detail)]
    return []
