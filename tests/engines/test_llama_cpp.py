"""spanparse's text is nearly always llama.cpp's too, and where it is not, the page on engines says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.audit.corpus import Template
from tests.audit.shapes import Conversation
from tests.engines.cause import CAUSES, UNKNOWN, cause_of
from tests.engines.comparison import Comparison
from tests.engines.page import agreement, difference_rows
from tests.engines.pair import Pair, Refused, ours

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
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
    "messages": "{{ messages[1].content is defined }}",
}


@pytest.fixture(scope="module")
def peer() -> Any:
    pytest.importorskip("ggufdoctor", reason="ggufdoctor is not installed (extra dev)")
    from tests.engines.llama_cpp import LlamaCpp

    return LlamaCpp()


def pair(template: str) -> Pair:
    return Pair(Template("snippet", template, False), "", "", True, Conversation(MESSAGES), {})


def test_99_of_100_texts_that_both_render_are_equal_on_a_tenth_of_the_corpus(
    beside_llama_cpp: list[Comparison],
) -> None:
    assert agreement(beside_llama_cpp) >= 0.99


def test_every_difference_has_a_cause(beside_llama_cpp: list[Comparison]) -> None:
    assert [c for c in beside_llama_cpp if c.cause == UNKNOWN] == []


def test_the_page_lists_every_difference(tenth: list[Template], beside_llama_cpp: list[Comparison]) -> None:
    listed = PAGE.read_text("utf-8").splitlines()
    names = tuple(f"| `{template.name}` |" for template in tenth)
    assert [row for row in listed if row.startswith(names)] == difference_rows(beside_llama_cpp)


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
