"""Names do not decide, and owners do not flip: small templates with random markers, renamed and grown."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanparse import Rendering, TemplateSource, parse

Message = dict[str, Any]

CLOSERS: Final = (
    *("<|im_end|>", "<|eot_id|>", "[EOT]", "<EOT>", "<END>", "<|sep|>", "[SEP]", "<|stop|>", "</s>", "<turn|>", "<x1>"),
    *("###", "[X7]", "<|x17|>", "<|eos|>", "[/TURN]", "<|fin|>", "<~>"),
)
HEADS: Final = "{{ bos_token }}{% for m in messages %}{% if not loop.first %}END{% endif %}BEGIN{{ m.role }}\n"
HEADS += "{{ m.content }}{% endfor %}{% if add_generation_prompt %}ENDBEGINassistant\n{% endif %}"
EARLY: Final = (
    "{% for m in messages %}{% if m.role == 'user' %}USER{{ m.content }}ENDASKED"
    "{% elif m.role == 'assistant' %}{{ m.content }}END{% else %}SYSTEM{{ m.content }}END{% endif %}{% endfor %}"
)


def parsed(template: str, messages: Sequence[Message], kwargs: dict[str, str], *, add: bool = False) -> Rendering:
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    return parse(source, [*messages], kwargs=kwargs, add_generation_prompt=add)


def owners_of(rendering: Rendering) -> list[int]:
    """The owner of each character; -1 is the preamble, -2 the generation prompt."""
    owners = [-1] * len(rendering.text)
    for message in rendering.messages:
        for start, end in message.pieces:
            owners[start:end] = [message.index] * (end - start)
    if rendering.generation_prompt:
        start, end = rendering.generation_prompt
        owners[start:end] = [-2] * (end - start)
    return owners


def stretches(rendering: Rendering) -> list[tuple[int, str]]:
    """(owner, text) of every stretch, in text order."""
    found: list[tuple[int, str]] = []
    for owner, character in zip(owners_of(rendering), rendering.text, strict=True):
        if found and found[-1][0] == owner:
            found[-1] = (owner, found[-1][1] + character)
        else:
            found.append((owner, character))
    return found


def said(*roles: str) -> list[Message]:
    return [{"role": role, "content": f"Q{number}"} for number, role in enumerate(roles)]


@pytest.mark.parametrize("end", CLOSERS)
def test_a_turn_s_end_at_the_head_of_the_next_iteration_is_that_turn_s_whatever_its_name(end: str) -> None:
    template = HEADS.replace("END", end).replace("BEGIN", "<|begin|>")
    rendering = parsed(template, said("system", "user", "assistant", "user"), {"bos_token": "<s>"}, add=True)
    assert rendering.exact
    assert stretches(rendering) == [
        (-1, "<s>"),
        (0, f"<|begin|>system\nQ0{end}"),
        (1, f"<|begin|>user\nQ1{end}"),
        (2, f"<|begin|>assistant\nQ2{end}"),
        (3, "<|begin|>user\nQ3"),
        (-2, f"{end}<|begin|>assistant\n"),
    ]


@pytest.mark.parametrize("end", CLOSERS)
@pytest.mark.parametrize("header", ["<|assistant|>", "<x9>", "[A]", "=> "])
def test_what_ends_other_turns_ends_this_one_and_the_rest_is_the_answer_s_header(end: str, header: str) -> None:
    template = EARLY.replace("END", end).replace("USER", "<|u|>").replace("SYSTEM", "<|sys|>").replace("ASKED", header)
    rendering = parsed(template, said("user", "assistant", "user", "assistant"), {})
    assert rendering.exact
    assert stretches(rendering) == [
        (0, f"<|u|>Q0{end}"),
        (1, f"{header}Q1{end}"),
        (2, f"<|u|>Q2{end}"),
        (3, f"{header}Q3{end}"),
    ]


def test_a_system_text_that_is_a_list_with_one_empty_text_has_its_turn() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'system' %}<|im_start|>system\n{% if m.content is string %}"
        "{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}<|im_end|>\n"
        "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    )
    for content in ("", [{"type": "text", "text": ""}], [{"type": "text", "text": "x"}]):
        rendering = parsed(template, [{"role": "system", "content": content}, *said("user")], {})
        assert rendering.messages[0].pieces[0].start == 0


RESULTS: Final = (
    "{% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'tool' %}"
    "{{ '' if ns.open else '<results>' }}[{{ m.content }}]{% set ns.open = true %}{% elif m.role == 'assistant' %}"
    "{{ '</results>' if ns.open }}{% if loop.last %}\n\n</think>{% endif %}{{ m.content }}</s>"
    "{% set ns.open = false %}{% else %}<|u|>{{ m.content }}<|a|>{% endif %}{% endfor %}"
)


@given(
    st.sampled_from([HEADS, EARLY, RESULTS]),
    st.permutations(CLOSERS),
    st.sampled_from(["<|y{}|>", "[Y{}]", "<y{}>"]),
    st.lists(st.sampled_from(["user", "assistant", "tool"]), min_size=1, max_size=5),
    st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_under_other_names_a_text_has_the_same_owner_or_that_is_not_clear(
    form: str, markers: list[str], shape: str, roles: list[str], add: bool
) -> None:
    names = dict(zip(["END", "BEGIN", "USER", "SYSTEM", "ASKED"], markers, strict=False))
    template = re.sub("|".join(names), lambda found: names[found[0]], form)
    numbers = count()
    tokens = [*markers, "<results>", "</results>", "<|u|>", "<|a|>", "</think>", "<s>"]
    opaque = {token: shape.format(next(numbers)) for token in sorted(tokens, key=len, reverse=True)}
    pattern = re.compile("|".join(map(re.escape, opaque)))

    def renamed(text: str) -> str:
        return pattern.sub(lambda found: opaque[found[0]], text)

    messages = said("user", *roles)
    before = parsed(template, messages, {"bos_token": "<s>"}, add=add)
    after = parsed(renamed(template), messages, {"bos_token": renamed("<s>")}, add=add)
    assert renamed(before.text) == after.text
    if before.exact and after.exact:
        assert [(owner, renamed(text)) for owner, text in stretches(before)] == stretches(after)


@given(
    st.sampled_from([HEADS, EARLY, RESULTS]),
    st.permutations(CLOSERS),
    st.lists(st.sampled_from(["user", "assistant", "tool"]), min_size=2, max_size=6),
    st.data(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_text_that_a_conversation_shares_with_its_continuation_keeps_its_owner(
    form: str, markers: list[str], roles: list[str], data: st.DataObject
) -> None:
    names = dict(zip(["END", "BEGIN", "USER", "SYSTEM", "ASKED"], markers, strict=False))
    template = re.sub("|".join(names), lambda found: names[found[0]], form)
    messages = said("user", *roles)
    size = data.draw(st.integers(1, len(messages) - 1))
    whole, begun = (parsed(template, part, {"bos_token": "<s>"}) for part in (messages, messages[:size]))
    if not (whole.exact and begun.exact):
        return
    # Behind the last text a header may stand that is the next message's.
    shared = min(begun.text.rindex(f"Q{size - 1}") + 2, len(whole.text))
    while whole.text[:shared] != begun.text[:shared]:
        shared -= 1
    assert owners_of(whole)[:shared] == owners_of(begun)[:shared]
