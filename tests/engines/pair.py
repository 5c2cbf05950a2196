"""What the engines are given: one template, one conversation, one setting of the kwargs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.audit.corpus import Template
from tests.audit.kwargs import SPECIAL_TOKENS, settings
from tests.audit.shapes import SHAPES, Conversation, conversation

from spanparse import Request, TemplateError, render_plain

CLOCK: Final = datetime.datetime.combine(datetime.date.today(), datetime.time())
"""The time in every engine: llama-server cannot be told another date, and no template shows the time of day."""

SERVER_DEFAULTS: Final[Mapping[str, Any]] = {
    "date_string": CLOCK.strftime("%d %b %Y"),
    "datetime": CLOCK.strftime("%b %d %Y"),
    "enable_thinking": True,
    "preserve_reasoning": True,
    "preserve_thinking": True,
    "clear_thinking": False,
    "truncate_history_thinking": False,
    "drop_thinking": False,
}
"""What a template reads in llama-server where a request says nothing (llama.cpp's `common/chat.cpp` and `arg.cpp`)."""


NOT_SERVED: Final = "llama-server does not start with this template"
"""Why a template's pairs are refused if the server does not even start."""


class Pair(NamedTuple):
    """A template and what it is given; `setting` names the kwargs beside the special tokens."""

    template: Template
    shape: str
    setting: str
    generation: bool
    conversation: Conversation
    kwargs: Mapping[str, Any]


class Refused(NamedTuple):
    """An engine's refusal to render a pair, in its own words."""

    reason: str


Outcome = str | Refused
"""The prompt, or why there is none."""


def pairs_of(template: Template, shapes: Sequence[str] = tuple(SHAPES)) -> Iterator[Pair]:
    """The pairs of a template: each shape with each setting of the kwargs, with and without generation prompt."""
    for shape in shapes:
        built = conversation(shape, template.text)
        for setting, values in settings(template.text).items():
            for generation in (True, False):
                yield Pair(template, shape, setting, generation, built, {**SPECIAL_TOKENS, **values})


def ours(pair: Pair) -> Outcome:
    """What spanparse makes of a pair."""
    messages, tools = pair.conversation.messages, pair.conversation.tools
    try:
        return render_plain(pair.template.text, Request(messages, tools, pair.kwargs, pair.generation, CLOCK))
    except TemplateError as error:
        return Refused(str(error))
