"""The generation prompt is what `add_generation_prompt` adds, also where the switch takes something away at the end."""

from __future__ import annotations

import hashlib
import sys

import pytest

from spanparse import Rendering, TemplateSource, analyse, load_source, parse, render_plain

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "so"}]
TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


def rendered(template: str, *, add: bool) -> Rendering:
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    return parse(source, CHAT, add_generation_prompt=add)


def prompt(rendering: Rendering) -> str | None:
    found = rendering.generation_prompt
    return None if found is None else rendering.text[found.start : found.end]


def test_it_takes_the_place_of_what_ends_a_prompt_without_it() -> None:
    template = TURNS + "{% if add_generation_prompt %}<|assistant|>{% else %}</s>{% endif %}"
    assert prompt(rendered(template, add=True)) == "<|assistant|>"
    assert prompt(rendered(template, add=False)) is None


def test_it_goes_on_to_the_end_where_every_prompt_ends_alike() -> None:
    template = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}<|reward|>"
    assert prompt(rendered(template, add=True)) == "<|assistant|><|reward|>"


def test_what_the_switch_adds_inside_a_message_is_no_prompt() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{% if add_generation_prompt %}[ask]{% endif %}"
        "{{ m.content }}<|end|>{% endfor %}"
    )
    rendering = rendered(template, add=True)
    assert "[ask]" in rendering.text
    assert prompt(rendering) is None


@pytest.mark.parametrize(
    "end",
    [
        "{% set mark = '<|assistant|>' %}{% endif %}{{ mark }}",
        "{% set ns.mark = '<|assistant|>' %}{% endif %}{{ ns.mark }}",
        "{% set mark %}<|assistant|>{% endset %}{% endif %}{{ mark }}",
    ],
)
def test_what_is_set_under_the_switch_and_put_out_later_is_in_it(end: str) -> None:
    begin = "{% set mark = '' %}{% set ns = namespace(mark='') %}"
    template = begin + TURNS + "{% if add_generation_prompt %}" + end + "{% if add_generation_prompt %}:{% endif %}"
    assert prompt(rendered(template, add=True)) == "<|assistant|>:"


def test_a_template_that_turns_the_switch_on_by_itself_adds_no_prompt_whatever_the_caller_says() -> None:
    template = (
        "{% set add_generation_prompt = true %}" + TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    asked, unasked = rendered(template, add=True), rendered(template, add=False)
    assert prompt(asked) is None
    assert asked == unasked


def test_a_switch_that_is_asked_for_elsewhere_takes_a_second_render_only_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{{ '<|return|>' if loop.last and m.role == 'assistant' and not add_generation_prompt else '<|end|>' }}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    renders: list[int] = []

    def counted(*args: object, **kwargs: object) -> str:
        renders.append(1)
        return render_plain(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(sys.modules["spanparse.parse"], "render_plain", counted)
    assert prompt(parse(source, CHAT, verify=False)) == "<|assistant|>"
    assert not renders
    assert prompt(parse(source, CHAT[:2], verify=False)) == "<|assistant|>"
    assert len(renders) == 1


PREFILLED = [
    ("<|im_start|>assistant\n", "", ""),
    ("<|im_start|>assistant\n", "<think>\n", ""),
    ("<|im_start|>assistant\n", "<think>\n\n", "</think>\n\n"),
    ("<|turn>model\n", "<|channel>thought\n", "<channel|>"),
    ("<|start|>assistant", "<|channel|>analysis<|message|>", ""),
    ("<|begin|>assistant", "<|think|>", "<|end|><|begin|>assistant"),
    ("<|CHATBOT_TOKEN|>", "<|START_THINKING|>", "<|END_THINKING|>"),
    (" /think_off <longcat_assistant>", "<longcat_think>\n\n", "</longcat_think>\n"),
    # Reasoning that is closed and never opened was not prefilled.
    ("<｜Assistant｜>", "", "</think>"),
    ("[ASSISTANT]", "", "[/THINK]\n"),
    ("<|start_of_role|>judge{no_think}<|end_of_role|>", "", ""),
]


@pytest.mark.parametrize("texts", PREFILLED)
def test_its_parts_are_the_header_prefilled_reasoning_and_what_closes_that(texts: tuple[str, str, str]) -> None:
    rendering = rendered(TURNS + "{% if add_generation_prompt %}" + "".join(texts) + "{% endif %}", add=True)
    parts = [(part.kind, rendering.text[part.start : part.end]) for part in rendering.generation_parts]
    named = zip(("header", "reasoning", "delimiter"), texts, strict=True)
    assert parts == [(kind, text) for kind, text in named if text]


def test_without_one_there_are_no_parts() -> None:
    assert rendered(TURNS, add=True).generation_parts == ()


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("name", ["chatml", "gemma4", "gpt-oss", "qwen3-coder"])
def test_prefilled_reasoning_has_the_markers_that_a_message_s_reasoning_has(name: str, thinking: bool) -> None:
    template = load_source(name)
    markers = analyse(template).reasoning
    start, end = (str(markers.start).strip(), str(markers.end).strip()) if markers else ("<none>", "<none>")
    rendering = parse(template, CHAT, kwargs={"enable_thinking": thinking})
    found = {part.kind: rendering.text[part.start : part.end] for part in rendering.generation_parts}
    whole = prompt(rendering) or ""
    assert found.get("reasoning", "").startswith(start) == (start in whole)
    assert found.get("delimiter", "").startswith(end) == (start in whole and end in whole)


def test_a_header_that_stands_there_without_the_switch_is_not_in_it() -> None:
    template = TURNS + "<|start|><|assistant|>{% if add_generation_prompt %}<|answer|>{% endif %}"
    rendering = rendered(template, add=True)
    assert prompt(rendering) == "<|answer|>"
    last = rendering.messages[-1].pieces[-1]
    assert rendering.text[last.start : last.end] == "<|user|>so<|end|><|start|><|assistant|>"


@pytest.mark.parametrize(
    "asked",
    [
        "{{ messages[-1].content }}:",
        "{{ messages[-1].content | trim ~ ':' }}",
        "{% if true %}{{ '' }}{{ messages[0]['role'] + ':' }}{% endif %}",
        "{{ messages | length }}<|assistant|>",
    ],
)
def test_it_may_begin_with_what_a_message_says(asked: str) -> None:
    template = TURNS + "{% if add_generation_prompt %}" + asked + "{% endif %}"
    added = rendered(template, add=True)
    assert prompt(added) == added.text.removeprefix(rendered(template, add=False).text)
    assert added.text.endswith(f"<|user|>so<|end|>{prompt(added)}")
    assert added.messages[-1].pieces[-1].end == added.generation_prompt[0]  # type: ignore[index]
