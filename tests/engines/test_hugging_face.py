"""spanparse's text is the one that transformers' own renderer gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.audit.corpus import Template
from tests.audit.shapes import Conversation
from tests.engines.comparison import Comparison
from tests.engines.pair import CLOCK, Pair, Refused, ours

from spanparse import TemplateSource, parse
from spanparse.sources import bundled_names, bundled_template

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "é <b>"},
    {"role": "assistant", "content": None, "reasoning_content": "why", "name": None},
]
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c"},
]
RENDERED = {
    "clock": "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}",
    "null field": "{{ messages[1].content is defined }}{{ messages[1] }}",
    "reasoning under other names": "{{ messages[1].thinking }}{{ messages[1].reasoning is defined }}",
    "whole messages": "{{ messages | tojson(indent=1) }}{{ messages }}",
    "namespace": "{% set ns = namespace({'a': 1}, b=2, self=3) %}{% set ns.a = 4 %}{{ ns.a }}{{ ns.b }}{{ ns.self }}",
    "dict": "{{ dict(a=1) }}{{ dict([('b', 2)]).b }}{{ dict.fromkeys(['c']) }}",
    "internals": "[{{ messages.__class__ }}{{ dict.mro }}{{ ''.format.__globals__ }}]",
    "no tools and no documents": "{{ tools }}{{ documents }}{{ tools is defined }}",
    "no attribute of the function dict": "{{ dict.mro is defined }}{{ dict['get'] is defined }}",
    "generation block": "{% generation %}{{ messages[0].content }}{% endgeneration %}",
}
REFUSED = {
    "underscored attribute of a namespace": "{% set ns = namespace(_a=1) %}",
    "underscored attribute set later": "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "attribute that the function dict lacks": "{{ dict.from_keys([('a', 1)]) }}",
    "changed list": "{{ messages.append(1) }}",
    "attribute of nothing": "{{ messages[0].nothing.more }}",
    "raise_exception": "{{ raise_exception('no') }}",
    "unknown tag": "{% do 1 %}",
}


@pytest.fixture(scope="module")
def peer() -> Any:
    pytest.importorskip("transformers", reason="transformers is not installed (extra hf)")
    from tests.engines.hugging_face import HuggingFace

    return HuggingFace()


def pair(template: str) -> Pair:
    return Pair(Template("snippet", template, False), "", "", True, Conversation(MESSAGES), {"bos_token": "<s>"})


def test_every_text_is_transformers_on_a_sixth_of_the_corpus(beside_transformers: list[Comparison]) -> None:
    counts = Counter(comparison.agreement for comparison in beside_transformers)
    assert [c for c in beside_transformers if c.agreement not in ("same", "both refuse")] == []
    assert counts["same"] > 20_000


@pytest.mark.parametrize("name", RENDERED)
def test_a_snippet_gives_the_same_text(name: str, peer: Any) -> None:
    text = ours(pair(RENDERED[name]))
    assert text == peer.render(pair(RENDERED[name]))
    assert not isinstance(text, Refused)


@pytest.mark.parametrize("name", bundled_names())
@pytest.mark.parametrize("tools", [None, []], ids=["no tools", "an empty list of tools"])
def test_bundled_templates_are_given_the_tools_as_they_are(name: str, tools: list[Any] | None, peer: Any) -> None:
    template = bundled_template(name) + "{{ tools is none }}{{ tools }}"
    given = Pair(Template(name, template, True), "", "", True, Conversation(CHAT, tools), {"bos_token": "<s>"})
    text = ours(given)
    assert text == peer.render(given)
    assert str(text).endswith("TrueNone" if tools is None else "False[]")
    assert parse(TemplateSource(name, template, ""), CHAT, tools=tools, kwargs=given.kwargs, clock=CLOCK).text == text


@pytest.mark.parametrize("name", REFUSED)
def test_a_snippet_is_refused_by_both(name: str, peer: Any) -> None:
    assert isinstance(peer.render(pair(REFUSED[name])), Refused)
    assert isinstance(ours(pair(REFUSED[name])), Refused)
