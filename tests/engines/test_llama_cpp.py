"""Where spanparse's text is not llama.cpp's, the habit that made the difference is recognised."""

from __future__ import annotations

from typing import Any

import pytest
from tests.audit.corpus import Template
from tests.audit.shapes import Conversation
from tests.engines.cause import CAUSES, UNKNOWN, cause_of
from tests.engines.pair import NOT_SERVED, Outcome, Pair, Refused, ours
from tests.engines.preparation import HABITS
from tests.engines.runner import compare_template

pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (extra dev)")

from tests.engines.llama_cpp import LlamaServer

PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
"""What the server finds in a template when it starts; without it, it may refuse to."""
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "a\nb"}]},
    {"role": "assistant", "content": "c"},
]
SNIPPETS = {
    "null": "[{{ none }}]",
    "containers": "[{{ messages[0].content }}{{ ['a', ['b']] }}]",
    "continue": "{% for m in messages %}{% if loop.first %}{% if m %}lost{% endif %}too{% continue %}{% endif %}"
    "{{ m.role }}{% endfor %}",
    "repr": "{{ messages[0].content | string }}",
    "equality": "{% if messages[0].content != messages[0].content %}other{% endif %}",
    "safe": "{{ ('<' | safe) + '>' }}",
    "format": "{{ '%s!' | format('a') }}",
    "scope": "{% for m in messages %}{% if loop.first %}{% set x = 'kept' %}{% endif %}[{{ x }}]{% endfor %}",
    "undefined sum": "{{ 'a' + nowhere }}",
    "arguments": "{% macro say(a, b='b', c='c') %}[{{ a }}{{ c }}]{% endmacro %}{{ say('a', c='given') }}",
    "return": "<|channel|><|return|>",
}
USER = {"role": "user", "content": "a"}
CALL = {"id": "123456789", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
CALLS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TYPED = "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }}{% endfor %}\n{% endfor %}"
REQUESTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "continued": (PLAIN, [USER, {"role": "assistant", "content": "b"}]),
    "developer": (PLAIN, [{"role": "developer", "content": "b"}, USER]),
    "system": (PLAIN.replace("messages", "messages if m.role != 'system'"), [{"role": "system", "content": "b"}, USER]),
    "joined": (PLAIN, [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
    "typed": (TYPED, [USER]),
    "undefined": (PLAIN + "{% if add_generation_prompt is not defined %}answer:{% endif %}", [USER]),
    "stripped": (
        "{# You have access to the following functions in JSONSchema format #}" + PLAIN,
        [{"role": "user", "content": " a\n"}],
    ),
}


def render(pair: Pair, *, as_sent: bool = False) -> Outcome:
    return LlamaServer(pair.template.text, as_sent=as_sent).render(pair)


def pair(template: str, messages: list[dict[str, Any]] = MESSAGES) -> Pair:
    return Pair(Template("snippet", template, False), "", "", False, Conversation(messages), {"odd": True})


def odd(snippet: str) -> Pair:
    """The snippet in a template that is a plain one to the server while it starts."""
    return pair("{% if odd %}" + snippet + "{% else %}" + PLAIN + "{% endif %}")


@pytest.mark.parametrize("name", CAUSES)
def test_a_habit_of_the_engine_is_recognised(name: str) -> None:
    snippet = pair("\n" + odd("").template.text) if name == "first line" else odd(SNIPPETS[name])
    theirs = render(snippet)
    assert isinstance(theirs, str)
    assert theirs != ours(snippet)
    assert cause_of(snippet, theirs) == name


@pytest.mark.parametrize("name", REQUESTS)
def test_what_the_server_does_to_a_request_is_recognised(name: str) -> None:
    sent = pair(*REQUESTS[name])
    theirs = render(sent, as_sent=True)
    assert isinstance(theirs, str)
    assert theirs != ours(sent)
    assert cause_of(sent, theirs, as_sent=True) == name


def test_every_habit_has_a_snippet() -> None:
    assert {*SNIPPETS, "first line"} == CAUSES.keys()
    assert REQUESTS.keys() <= HABITS.keys()


def test_a_text_that_no_cause_gives_is_unknown() -> None:
    assert cause_of(odd(SNIPPETS["null"]), "something else") == UNKNOWN


def test_the_engine_is_given_what_a_template_is_given_here() -> None:
    shown = odd("{{ messages | tojson }}{{ tools | tojson }}{{ documents is defined }}{{ odd }}")._replace(
        conversation=Conversation([USER, {**CALLS, "reasoning_content": "why"}], [CALL])
    )
    assert render(shown) == ours(shown)


def test_the_date_is_the_same() -> None:
    snippet = odd("{{ strftime_now('%Y-%m-%d') }}")
    assert render(snippet) == ours(snippet)


def test_a_refusal_is_told_from_a_text() -> None:
    refused = render(odd("{{ raise_exception('not like this') }}"))
    assert isinstance(refused, Refused)
    assert "not like this" in refused.reason


def test_a_template_with_which_the_server_does_not_start_is_refused_in_all() -> None:
    found = compare_template("llama.cpp", Template("snippet", "{{ raise_exception('never') }}", False), ("user",))
    assert {comparison.agreement for comparison in found} == {"both refuse"}
    assert {comparison.theirs for comparison in found} == {NOT_SERVED}
