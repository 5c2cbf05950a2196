"""The rules that say whose the template's own text is: each decides its example, and the guide lists them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from spanparse import Request, TemplateSource, explain, parse_request
from spanparse.ownership.moves import Move, Stretch
from spanparse.ownership.rules import RULES, guide
from spanparse.ownership.stretches import Stretches

CHAT = [
    {"role": "user", "content": "hi", "name": "Ann"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "so"},
    {"role": "assistant", "content": "no"},
]


def source(text: str) -> TemplateSource:
    return TemplateSource("test", text, hashlib.sha256(text.encode()).hexdigest())


@pytest.mark.parametrize("number", range(len(RULES)), ids=lambda number: RULES[number].id)
def test_each_rule_decides_its_example(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = set()
    applied = Stretch.applied

    def noted(self: Stretch, moves: Iterable[Move], rule: str) -> Stretch:
        decided.add(rule)
        return applied(self, moves, rule)

    monkeypatch.setattr(Stretch, "applied", noted)
    rule = RULES[number]
    rendering = parse_request(source(rule.example), Request([*CHAT], add_generation_prompt=False))
    assert rule.id in decided or (rule.id == "foreign-role" and not rendering.exact)


def test_the_guide_lists_the_rules() -> None:
    text = (Path(__file__).parents[3] / "docs" / "developing.md").read_text("utf-8")
    assert guide() in text


def test_rules_have_names_of_their_own_and_end_their_sentence() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.sentence.endswith(".") for rule in RULES)


def test_decisions_are_those_of_the_parse() -> None:
    for rule in RULES:
        template, request = source(rule.example), Request([*CHAT], add_generation_prompt=True)
        rendering = parse_request(template, request)
        for start, end, owner, _ in explain(template, request):
            if owner >= 0:
                assert any(p.start <= start and end <= p.end for p in rendering.messages[owner].pieces)


def test_stretches_are_settled_once_for_each_look() -> None:
    settled = []
    before = Stretches._found

    def found(self: Stretches, first: int, last: int) -> object:
        settled.append((first, last))
        return before(self, first, last)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stretches, "_found", found)
        text = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        parse_request(source(text), Request(CHAT * 50, add_generation_prompt=False))
    assert len(settled) < 12


@pytest.mark.parametrize("written", ["'#' * 60", "'[ ' * 60", "'*' * 3000", "'<|user|>' * 3000", "'<' * 3000000"])
def test_what_a_template_writes_between_messages_is_looked_at_in_reasonable_time(written: str) -> None:
    template = source(f"{{{{ messages[0].content }}}}{{{{ {written} }}}}{{{{ messages[1].content }}}}")
    rendering = parse_request(template, Request(CHAT[:2], add_generation_prompt=False))
    assert [str(message.reason) for message in rendering.messages] == ["owner-unclear"] * 2
