"""The oracle finds planted errors, and none where there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from tests.audit import renaming
from tests.audit.case import Case
from tests.audit.corpus import Template, bundled
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.oracle import View, blanks, faults_of, growth
from tests.audit.renaming import STYLES, Renamed, check_renamed
from tests.audit.shapes import conversation
from tests.audit.subject import parse_case, source_of

from spanparse import MessageSpan, Note, Part, Piece, Reason, Rendering, TemplateSource
from spanparse.deferred import Deferred
from spanparse.spans import BarrierKind, Preamble

CHATML = next(template for template in bundled() if template.name == "chatml")


def replace(value: Any, **changes: object) -> Any:
    """A rendering, a span or a named tuple with other fields."""
    if isinstance(value, Rendering):
        of_spans = {name: changes.pop(name) for name in changes.keys() - Rendering.__slots__}
        return dataclasses.replace(
            value, spans=Deferred.done(dataclasses.replace(value.spans.value, **of_spans)), **changes
        )
    return value._replace(**changes) if isinstance(value, tuple) else dataclasses.replace(value, **changes)


def view_of(shape: str, template: Template = CHATML, *, generation: bool = True) -> View:
    case = Case(template.text, conversation(shape, template.text), SPECIAL_TOKENS)
    return View(case, generation, parse_case(source_of(template), case, generation))


def with_message(rendering: Rendering, message: MessageSpan) -> Rendering:
    messages = list(rendering.messages)
    messages[message.index] = message
    return replace(rendering, messages=tuple(messages))


def part_of(message: MessageSpan, kind: str) -> Part:
    return next(part for part in message.parts if part.kind == kind)


def with_part(rendering: Rendering, index: int, old: Part, *new: Part) -> Rendering:
    message = rendering.messages[index]
    at = message.parts.index(old)
    return with_message(rendering, replace(message, parts=(*message.parts[:at], *new, *message.parts[at + 1 :])))


def moved_border(rendering: Rendering, index: int, by: int) -> Rendering:
    """The border in front of a message moved by some characters, with everything that depends on it."""
    before, after = rendering.messages[index - 1], rendering.messages[index]
    old = after.pieces[0].start
    border = old + by
    last, first = before.parts[-1], after.parts[0]
    rendering = with_message(
        rendering,
        replace(
            before,
            pieces=(Piece(before.pieces[0].start, border),),
            parts=tuple(p for p in (*before.parts[:-1], replace(last, end=border)) if p.start < p.end),
        ),
    )
    rendering = with_message(
        rendering,
        replace(
            after, pieces=(Piece(border, after.pieces[0].end),), parts=(replace(first, start=border), *after.parts[1:])
        ),
    )
    barriers = [replace(b, offset=border) if b.offset == old else b for b in rendering.barriers]
    return replace(rendering, barriers=tuple(barriers))


def takes_trailer(rendering: Rendering) -> Rendering:
    prompt, last = rendering.generation_prompt, rendering.messages[-1]
    assert prompt is not None
    trailer = part_of(last, "trailer")
    rendering = with_message(
        rendering, replace(last, pieces=(Piece(last.pieces[0].start, trailer.start),), parts=last.parts[:-1])
    )
    barriers = [replace(b, offset=trailer.start) if b.offset == prompt.start else b for b in rendering.barriers]
    taken = Piece(trailer.start, prompt.end)
    parts = (Part("header", *taken),)
    return replace(rendering, generation_prompt=taken, generation_parts=parts, barriers=tuple(barriers))


def short_content(rendering: Rendering) -> Rendering:
    message = rendering.messages[1]
    content, trailer = part_of(message, "content"), part_of(message, "trailer")
    rendering = with_part(rendering, 1, content, replace(content, end=content.end - 1))
    return with_part(rendering, 1, trailer, replace(trailer, start=trailer.start - 1))


def swapped(rendering: Rendering) -> Rendering:
    """Messages 1 and 2 in each other's place."""
    one, two = rendering.messages[1], rendering.messages[2]
    rendering = with_message(rendering, replace(one, pieces=two.pieces, parts=two.parts))
    rendering = with_message(rendering, replace(two, pieces=one.pieces, parts=one.parts))
    kinds: dict[int, BarrierKind] = {1: "user_start", 2: "assistant_start"}
    changed = {1: 2, 2: 1}
    barriers = [
        replace(b, message=changed[b.message], kind=kinds[changed[b.message]]) if b.message in changed else b
        for b in rendering.barriers
    ]
    return replace(rendering, barriers=tuple(barriers))


def hole(rendering: Rendering) -> Rendering:
    message = rendering.messages[1]
    start, end = message.pieces[0]
    return with_message(rendering, replace(message, pieces=(Piece(start, end - 1),)))


def header_as_content(rendering: Rendering) -> Rendering:
    header = part_of(rendering.messages[1], "header")
    return with_part(rendering, 1, header, replace(header, kind="delimiter"))


def headless_prompt(rendering: Rendering) -> Rendering:
    return replace(rendering, generation_parts=rendering.generation_parts[1:])


def noted_dropped(rendering: Rendering) -> Rendering:
    return with_message(rendering, replace(rendering.messages[1], notes=(Note("dropped", "content"),)))


FAULTS: list[tuple[str, Callable[[Rendering], Rendering]]] = [
    ("text", lambda rendering: replace(rendering, text=rendering.text + " ")),
    ("tiling", hole),
    ("parts", lambda rendering: with_message(rendering, replace(rendering.messages[1], parts=()))),
    ("parts", headless_prompt),
    ("barriers", lambda rendering: replace(rendering, barriers=rendering.barriers[1:])),
    ("reason", lambda rendering: with_message(rendering, replace(rendering.messages[1], reason=Reason("bad-luck")))),
    ("caller-text", lambda rendering: replace(rendering, caller_text=rendering.caller_text[1:])),
    ("caller-text", lambda rendering: replace(rendering, caller_text=(Piece(0, len(rendering.text)),))),
    ("word", swapped),
    ("change", swapped),
    ("sentinel", swapped),
    ("range", short_content),
    ("turn", lambda rendering: moved_border(rendering, 2, 1)),
    ("turn", lambda rendering: moved_border(rendering, 2, -len("<|im_end|>\n"))),
    ("border", lambda rendering: moved_border(rendering, 2, -len("<|im_end|>\n"))),
    ("border", lambda rendering: moved_border(rendering, 2, len("<|im_start|>assistant"))),
    ("header", header_as_content),
    ("generation", takes_trailer),
    ("notes", noted_dropped),
]


@pytest.mark.parametrize(("check", "plant"), FAULTS)
def test_a_planted_error_is_found(check: str, plant: Callable[[Rendering], Rendering]) -> None:
    view = view_of("system, turns")
    assert faults_of(view) == []
    assert check in {fault.check for fault in faults_of(View(view.case, True, plant(view.rendering)))}


def test_calls_in_each_other_s_place_are_found() -> None:
    view = view_of("two parallel calls")
    assert faults_of(view) == []
    index = next(i for i, m in enumerate(view.case.messages) if m.get("tool_calls"))
    message = view.rendering.messages[index]
    exchanged = tuple(replace(p, index=1 - p.index) if p.index is not None else p for p in message.parts)
    rendering = with_message(view.rendering, replace(message, parts=exchanged))
    assert {fault.check for fault in faults_of(View(view.case, True, rendering))} == {"call"}


def test_tools_in_each_other_s_place_are_found() -> None:
    view = view_of("tools with nested schemas")
    assert faults_of(view) == []
    tools = part_of(view.rendering.messages[0], "tools")
    children = tuple(replace(child, index=(child.index or 0) + 1) for child in tools.children)
    rendering = with_part(view.rendering, 0, tools, replace(tools, children=children))
    assert {fault.check for fault in faults_of(View(view.case, True, rendering))} == {"tools"}


def test_text_that_does_not_depend_on_its_message_is_found() -> None:
    text = "{% for m in messages %}<|im_start|>{{ m.role }}\nhello<|im_end|>\n{% endfor %}"
    view = view_of("user", Template("constant", text, False))
    assert faults_of(view) == []
    header = view.rendering.messages[0].parts[0]
    rendering = with_part(view.rendering, 0, header, replace(header, kind="content"))
    assert "phantom" in {fault.check for fault in faults_of(View(view.case, True, rendering))}


TURN = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"


def test_a_message_that_takes_a_default_turn_in_front_of_its_own_is_found() -> None:
    text = "<|im_start|>system\nBe kind.<|im_end|>\n{% for m in messages %}" + TURN + "{% endfor %}"
    view = view_of("user", Template("default", text, False))
    assert faults_of(view) == []
    message = view.rendering.messages[0]
    header, *rest = message.parts
    taken = replace(message, pieces=(Piece(0, message.pieces[0].end),), parts=(replace(header, start=0), *rest))
    rendering = replace(view.rendering, preamble=Preamble(0, 0), barriers=view.rendering.barriers[1:])
    assert {fault.check for fault in faults_of(View(view.case, True, with_message(rendering, taken)))} == {
        "default",
        "blank",
        "growth",
    }


def test_a_generation_prompt_in_the_place_of_an_end_of_text_is_missed() -> None:
    text = (
        "{% for m in messages %}" + TURN + "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% else %}<|endoftext|>{% endif %}"
    )
    view = view_of("user", Template("ended", text, False))
    assert faults_of(view) == []
    message = view.rendering.messages[0]
    *rest, trailer = message.parts
    end = len(view.text)
    taken = replace(message, pieces=(Piece(0, end),), parts=(*rest, replace(trailer, end=end)))
    fewer = view.rendering.barriers[:-1]
    rendering = replace(view.rendering, generation_prompt=None, generation_parts=(), barriers=fewer)
    assert "generation" in {fault.check for fault in faults_of(View(view.case, True, with_message(rendering, taken)))}


def test_tools_in_another_message_s_turn_are_found() -> None:
    text = (
        "<|im_start|>system\n{{ messages[0].content }}{{ tools | tojson }}<|im_end|>\n"
        "{% for m in messages[1:] %}" + TURN + "{% endfor %}"
    )
    view = view_of("tools with nested schemas", Template("tools", text, False))
    assert faults_of(view) == []
    system, user = view.rendering.messages[:2]
    tools = part_of(system, "tools")
    header, *rest = user.parts
    lost = replace(system, pieces=(Piece(0, tools.start),), parts=system.parts[: system.parts.index(tools)])
    parts = (tools, replace(header, start=tools.end), *rest)
    taken = replace(user, pieces=(Piece(tools.start, user.pieces[0].end),), parts=parts)
    first, *others = view.rendering.barriers
    rendering = with_message(with_message(view.rendering, lost), taken)
    rendering = replace(rendering, barriers=(replace(first, offset=tools.start, kind="user_start"), *others))
    assert "tools" in {fault.check for fault in faults_of(View(view.case, True, rendering))}


def test_a_question_that_takes_the_answer_s_header_is_found() -> None:
    text = (
        "{% for m in messages %}{% if m.role == 'user' %}Human: {{ m.content }}\n\nAssistant: "
        "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    view = view_of("turns", Template("plain words", text, False))
    assert faults_of(view) == []
    rendering = moved_border(view.rendering, 1, len("Assistant:"))
    assert {fault.check for fault in faults_of(View(view.case, True, rendering))} == {"answer", "blank", "growth"}


def test_a_system_text_said_not_to_share_its_turn_is_found() -> None:
    view = view_of("system, user", next(template for template in bundled() if template.name == "gemma3"))
    assert faults_of(view) == []
    rendering = with_message(view.rendering, replace(view.rendering.messages[0], notes=()))
    assert "merged" in {fault.check for fault in faults_of(View(view.case, True, rendering))}


def test_a_trailer_that_takes_the_settings_of_the_next_turn_is_found() -> None:
    text = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '[SETTINGS]{}[/SETTINGS]' if loop.last }}"
        "[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    view = view_of("turns", Template("settings", text, False), generation=False)
    assert faults_of(view) == []
    rendering = moved_border(view.rendering, 4, len("[SETTINGS]{}[/SETTINGS]"))
    assert {fault.check for fault in faults_of(View(view.case, False, rendering))} == {"border"}


def test_a_message_that_takes_what_joins_the_texts_of_the_one_before_is_found() -> None:
    text = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for part in m.content %}{{ part.text }}{{ '\n\n' if not loop.last }}{% endfor %}"
        "{% endif %}<|im_end|>\n{% endfor %}"
    )
    view = view_of("list with several texts", Template("joined", text, False))
    assert faults_of(view) == []
    before, after, _ = view.rendering.messages
    joint = part_of(before, "delimiter")
    (start, end), (first, *others) = before.pieces[0], view.rendering.barriers
    parts = tuple(part for part in before.parts if part is not joint)
    robbed = replace(before, pieces=(Piece(start, joint.start), Piece(joint.end, end)), parts=parts)
    taker = replace(after, pieces=(Piece(joint.start, joint.end), *after.pieces), parts=(joint, *after.parts))
    taken = replace(first, offset=joint.start, kind="assistant_start", message=1)
    back = replace(first, offset=joint.end, kind="user_start", message=0)
    rendering = with_message(with_message(view.rendering, robbed), taker)
    barriers = (taken, back, *view.rendering.barriers) if first.offset > joint.end else (first, taken, back, *others)
    rendering = replace(rendering, barriers=barriers)
    assert "order" in {fault.check for fault in faults_of(View(view.case, True, rendering))}


def test_a_message_that_takes_the_header_in_front_of_an_earlier_text_is_found() -> None:
    text = (
        "{% for m in messages[1:] %}[INST] {% if loop.first %}<<SYS>>{{ messages[0].content }}<</SYS>>{% endif %}"
        "{{ m.content }}[/INST]{% endfor %}"
    )
    view = view_of("system, user", Template("shared", text, False), generation=False)
    assert faults_of(view) == []
    system, user = view.rendering.messages
    header = part_of(system, "header")
    robbed = replace(system, pieces=(Piece(header.end, system.pieces[0].end),), parts=system.parts[1:])
    taken = replace(user, pieces=(Piece(0, header.end), *user.pieces), parts=(header, *user.parts))
    rendering = with_message(with_message(view.rendering, robbed), taken)
    back, after = view.rendering.barriers[0], replace(view.rendering.barriers[0], offset=header.end, message=0)
    rendering = replace(rendering, barriers=(replace(after, kind="system_start"), back))
    assert {fault.check for fault in faults_of(View(view.case, False, rendering))} == {"order"}


def test_a_header_that_takes_in_the_end_of_its_turn_is_found() -> None:
    view = view_of("empty content")
    index = next(m.index for m in view.rendering.messages if [part.kind for part in m.parts] == ["header", "trailer"])
    message = view.rendering.messages[index]
    header, trailer = message.parts
    taken = replace(message, parts=(replace(header, end=trailer.end),))
    assert "end" in {f.check for f in faults_of(View(view.case, True, with_message(view.rendering, taken)))}


def test_a_call_that_takes_in_the_end_of_its_turn_is_found() -> None:
    view = view_of("call last")
    message = view.rendering.messages[-1]
    *rest, call, trailer = message.parts
    taken = replace(message, parts=(*rest, replace(call, end=trailer.end)))
    assert call.kind == "tool_call"
    assert "end" in {f.check for f in faults_of(View(view.case, True, with_message(view.rendering, taken)))}


def test_two_turns_that_are_called_one_are_found() -> None:
    view = view_of("turns")
    assert faults_of(view) == []
    rendering = view.rendering
    trailer, header = part_of(rendering.messages[0], "trailer"), part_of(rendering.messages[1], "header")
    rendering = with_part(rendering, 0, trailer, replace(trailer, kind="delimiter"))
    rendering = with_part(rendering, 1, header, replace(header, kind="delimiter"))
    found = [fault for fault in faults_of(View(view.case, True, rendering)) if fault.check == "merged"]
    assert [fault.message for fault in found] == [0, 1]


def test_a_message_that_is_not_called_exact_is_not_blamed() -> None:
    view = view_of("system, turns")
    rendering = swapped(view.rendering)
    for index in (1, 2):
        message = replace(rendering.messages[index], reason=Reason("owner-unclear"))
        rendering = with_message(replace(rendering, reason=message.reason), message)
    assert faults_of(View(view.case, True, rendering)) == []


def test_a_trailer_that_goes_to_the_header_of_an_empty_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def header_alone(source: TemplateSource, case: Case, generation: bool) -> Rendering:
        rendering = parse_case(source, case, generation)
        for message in rendering.messages:
            if [part.kind for part in message.parts] == ["header", "trailer"]:
                header, trailer = message.parts
                rendering = with_message(rendering, replace(message, parts=(replace(header, end=trailer.end),)))
        return rendering

    view = view_of("turns")
    assert faults_of(view) == []
    monkeypatch.setattr(blanks, "parse_case", header_alone)
    assert {fault.check for fault in faults_of(view)} == {"blank"}


def test_an_answer_that_gives_up_its_first_character_when_the_conversation_grows_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begins_later(source: TemplateSource, case: Case, generation: bool) -> Rendering:
        rendering = parse_case(source, case, generation)
        return moved_border(rendering, 1, 1) if len(case.messages) == 2 else rendering

    view = view_of("turns")
    monkeypatch.setattr(growth, "parse_case", begins_later)
    assert {fault.check for fault in faults_of(view)} == {"growth"}


def test_a_header_that_is_written_unasked_may_introduce_the_next_message() -> None:
    header = (
        "<|im_start|>{% if loop.last or messages[loop.index].role == 'assistant' %}assistant{% else %}user{% endif %}\n"
    )
    text = "<|im_start|>user\n{% for m in messages %}{{ m.content }}<|im_end|>\n" + header + "{% endfor %}"
    views = [view_of(shape, Template("unasked", text, False)) for shape in ("turns", "two users")]
    assert [fault for view in views for fault in faults_of(view) if fault.check == "growth"] == []


@pytest.mark.parametrize("style", range(len(STYLES)))
def test_an_owner_that_other_names_for_its_tokens_change_is_found(style: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(source: TemplateSource, case: Case, generation: bool) -> Rendering:
        rendering = parse_case(source, case, generation)
        return rendering if "<|im_start|>" in case.template else moved_border(rendering, 1, 1)

    view = view_of("content that quotes control tokens")
    assert check_renamed(view, CHATML, style) == Renamed("exact")
    monkeypatch.setattr(renaming, "parse_case", moved)
    outcome, faults = check_renamed(view, CHATML, style)
    assert outcome == "exact"
    assert [fault.check for fault in faults] == ["renaming"]


def test_a_token_that_a_template_also_puts_together_keeps_its_name() -> None:
    text = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    template = Template("put together", text, False)
    assert check_renamed(view_of("turns", template), template, 0).outcome == "exact"


def test_a_template_that_goes_another_way_under_other_names_cannot_be_compared() -> None:
    text = "{% for m in messages %}<|turn|>{{ m.content }}{{ '<|turn|>' | length }}{% endfor %}"
    template = Template("counting", text, False)
    assert check_renamed(view_of("turns", template), template, 0).outcome == "incomparable"
