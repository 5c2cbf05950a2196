"""Where spanparse's text is not llama.cpp's, the habit of its engine that made the difference is recognised."""

from __future__ import annotations

from typing import Any

import pytest
from tests.audit.corpus import Template
from tests.audit.shapes import Conversation
from tests.engines.cause import CAUSES, UNKNOWN, cause_of
from tests.engines.pair import Pair, Refused, ours

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "a\nb"}]},
    {"role": "assistant", "content": None},
]
HABITS = {
    "null": "[{{ none }}]",
    "containers": "[{{ messages[0].content }}{{ ['a', ['b']] }}]",
    "continue": "{% for m in messages %}{% if loop.first %}{% if m %}lost{% endif %}too{% continue %}{% endif %}"
    "{{ m.role }}{% endfor %}",
    "repr": "{{ messages[0].content | string }}",
    "equality": "{% if messages[0].content != messages[0].content %}other{% endif %}",
    "safe": "{{ ('<' | safe) + '>' }}",
    "format": "{{ '%s!' | format('a') }}",
    "iterable": "{{ messages[0] is iterable }}",
    "scope": "{% for m in messages %}{% if loop.first %}{% set x = 'kept' %}{% endif %}[{{ x }}]{% endfor %}",
    "first line": "\n{% set x = 1 %}{{ x }}",
    "messages": "{{ messages[1].content is defined }}",
}


@pytest.fixture(scope="module")
def peer() -> Any:
    pytest.importorskip("ggufdoctor", reason="ggufdoctor is not installed (extra dev)")
    from tests.engines.llama_cpp import LlamaCpp

    return LlamaCpp()


def pair(template: str) -> Pair:
    return Pair(Template("snippet", template, False), "", "", True, Conversation(MESSAGES), {})


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_recognised(name: str, peer: Any) -> None:
    snippet = pair(HABITS[name])
    theirs = peer.render(snippet)
    assert isinstance(theirs, str)
    assert theirs != ours(snippet)
    assert cause_of(snippet, theirs) == name


def test_a_text_that_no_cause_gives_is_unknown() -> None:
    assert cause_of(pair(HABITS["null"]), "something else") == UNKNOWN


def test_the_clock_stands_where_ours_does(peer: Any) -> None:
    snippet = pair("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}")
    assert peer.render(snippet) == ours(snippet)


def test_a_refusal_is_told_from_a_text(peer: Any) -> None:
    refused = peer.render(pair("{{ raise_exception('not like this') }}"))
    assert isinstance(refused, Refused)
    assert "not like this" in refused.reason
