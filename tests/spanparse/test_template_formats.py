"""The published formats, one by one, as the bundled templates write them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanparse.errors import TemplateRefused
from spanparse.rendering.render import Message, Request, Tool, render_plain
from spanparse.sources import bundled_template

Tools = list[Tool] | None

CONVERSATIONS = Path(__file__).parents[2] / "fixtures" / "conversations"
TOOL: Tool = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "High water.",
        "parameters": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
    },
}
TOOL_JSON = json.dumps(TOOL)


def render(name: str, messages: list[Message], tools: Tools = None, kwargs: Any = None, prompt: bool = True) -> str:
    return render_plain(bundled_template(name), Request(messages, tools, kwargs or {}, prompt), name=name)


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def answer(text: str, **fields: Any) -> Message:
    return {"role": "assistant", "content": text, **fields}


def call(arguments: Any = None, identifier: str = "tide00001", **fields: Any) -> Message:
    function = {"name": "tide", "arguments": {"day": "Friday"} if arguments is None else arguments}
    calls = [{"id": identifier, "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls, **fields}


def result(content: str, identifier: str = "tide00001") -> Message:
    return {"role": "tool", "tool_call_id": identifier, "content": content}


def tool_loop() -> list[Message]:
    return [system("Be brief."), user("High water?"), call(), result("06:40"), answer("At 06:40."), user("Sure?")]


def test_chatml_writes_turns_with_json_calls_and_drops_old_reasoning() -> None:
    messages = [*tool_loop(), call({"day": "Friday"}, "tide00002", reasoning_content="Look again.\n"), result("06:40")]
    messages[2]["reasoning_content"] = "Gone by now."
    text = render("chatml", messages)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHigh water?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "tide", "arguments": {"day": "Friday"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n06:40\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nAt 06:40.<|im_end|>\n"
        "<|im_start|>user\nSure?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nLook again.\n</think>\n\n"
        '<tool_call>\n{"name": "tide", "arguments": {"day": "Friday"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n06:40\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_chatml_lists_the_tools_after_the_system_text() -> None:
    text = render("chatml", [system("Be brief."), user("Hi.")], [TOOL])
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n\n")
    assert f"<tools>\n{TOOL_JSON}\n</tools>" in text.split("<|im_end|>")[0]


def test_chatml_makes_a_system_turn_for_tools_alone() -> None:
    assert render("chatml", [user("Hi.")], [TOOL]).startswith("<|im_start|>system\n# Tools\n\n")


def test_chatml_groups_the_results_of_parallel_calls() -> None:
    text = render("chatml", [user("Q"), call(), result("06:40"), result("19:02")])
    assert (
        "<|im_start|>user\n<tool_response>\n06:40\n</tool_response>\n<tool_response>\n19:02\n</tool_response><|im_end|>"
        in text
    )


def test_chatml_takes_tool_results_in_a_user_message_as_part_of_the_turn() -> None:
    messages = [user("Q"), call(reasoning_content="Kept."), user("<tool_response>\n06:40\n</tool_response>")]
    assert "Kept." in render("chatml", messages)
    assert "Kept." not in render("chatml", [*messages, user("Next.")])


def test_chatml_finds_reasoning_inside_content() -> None:
    inline = [user("Q"), answer("<think>\nHm.\n</think>\n\nA.")]
    assert render("chatml", inline) == render("chatml", [user("Q"), answer("A.", reasoning_content="Hm.")])
    assert "Hm." not in render("chatml", [*inline, user("Next.")])


def test_chatml_writes_an_empty_think_block_where_the_current_turn_has_no_reasoning() -> None:
    assert "assistant\n<think>\n\n</think>\n\nA.<|im_end|>" in render("chatml", [user("Q"), answer("A.")])


@pytest.mark.parametrize(
    ("kwargs", "suffix"), [({}, "<think>\n"), ({"enable_thinking": False}, "<think>\n\n</think>\n\n")]
)
def test_chatml_opens_or_closes_the_think_block_of_the_generation_prompt(kwargs: dict[str, bool], suffix: str) -> None:
    assert render("chatml", [user("Q")], kwargs=kwargs).endswith(f"<|im_start|>assistant\n{suffix}")


def test_chatml_allows_a_system_message_in_the_middle() -> None:
    assert "<|im_start|>system\nNow in Danish.<|im_end|>" in render("chatml", [user("Q"), system("Now in Danish.")])


def test_chatml_shows_images_and_audio() -> None:
    text = render("chatml", json.loads((CONVERSATIONS / "media.json").read_text("utf-8"))["messages"])
    assert text.count("<|vision_start|><|image_pad|><|vision_end|>") == 2
    assert text.count("<|audio_start|><|audio_pad|><|audio_end|>") == 1


texts = st.text(st.characters(codec="utf-8", exclude_characters="<>"), min_size=1, max_size=12)
turns = st.tuples(texts, st.lists(st.tuples(texts, texts), max_size=2), texts)


@settings(max_examples=50, deadline=None)
@given(st.lists(turns, min_size=1, max_size=3))
def test_with_preserve_thinking_every_chatml_prompt_extends_the_one_before(conversation: list[Any]) -> None:
    messages: list[Message] = []
    prompts: list[str] = []
    for question, loop, reply in conversation:
        messages.append(user(question))
        for thought, reading in loop:
            prompts.append(render("chatml", messages, kwargs={"preserve_thinking": True}))
            messages += [call(reasoning_content=thought), result(reading)]
        prompts.append(render("chatml", messages, kwargs={"preserve_thinking": True}))
        messages.append(answer(reply))
    assert all(after.startswith(before) for before, after in pairwise(prompts))


def test_gpt_oss_writes_channels_and_recipients() -> None:
    messages = [*tool_loop(), call({"day": "Friday"}, reasoning_content="Look again.")]
    messages[2]["reasoning_content"] = messages[4]["reasoning_content"] = "Gone by now."
    text = render("gpt-oss", messages)
    assert text[text.index("<|start|>developer") :] == (
        "<|start|>developer<|message|># Instructions\n\nBe brief.<|end|>"
        "<|start|>user<|message|>High water?<|end|>"
        '<|start|>assistant to=functions.tide<|channel|>commentary json<|message|>{"day": "Friday"}<|call|>'
        "<|start|>functions.tide to=assistant<|channel|>commentary<|message|>06:40<|end|>"
        "<|start|>assistant<|channel|>final<|message|>At 06:40.<|end|>"
        "<|start|>user<|message|>Sure?<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>Look again.<|end|>"
        '<|start|>assistant to=functions.tide<|channel|>commentary json<|message|>{"day": "Friday"}<|call|>'
        "<|start|>assistant"
    )


def test_gpt_oss_begins_with_a_system_message_of_its_own() -> None:
    assert render(
        "gpt-oss", [user("Q")], kwargs={"reasoning_effort": "high", "model_identity": "You are a buoy."}
    ).startswith(
        "<|start|>system<|message|>You are a buoy.\nKnowledge cutoff: 2024-06\nCurrent date: 2026-01-01\n\n"
        "Reasoning: high\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
    )


def test_gpt_oss_declares_nested_tools_as_typescript() -> None:
    text = render("gpt-oss", [user("Q")], json.loads((CONVERSATIONS / "gpt-oss.json").read_text("utf-8"))["tools"])
    assert (
        "// What travels along.\nvehicle?: {\n"
        '    kind: "none" | "bicycle" | "car",\n    // Length in metres.\n    length_m?: number,\n    },\n}) => any;'
    ) in text
    assert "passengers?: number, // default: 1\n" in text
    assert "# Tools\n\n## functions\n\nnamespace functions {\n\n" in text


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "number[]"),
        ({"type": "array", "items": {"enum": ["a", "b"], "type": "string"}}, '("a" | "b")[]'),
        ({"type": "array"}, "any[]"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number"),
        ({"type": "boolean", "nullable": True}, "boolean | null"),
        ({"type": "object"}, "object"),
        ({}, "any"),
    ],
)
def test_gpt_oss_turns_a_json_schema_into_a_type(schema: dict[str, Any], expected: str) -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}},
    }
    assert f"(_: {{\nx?: {expected},\n}})" in render("gpt-oss", [user("Q")], [tool])


def test_gpt_oss_puts_text_beside_a_call_into_the_commentary_channel() -> None:
    text = render("gpt-oss", [user("Q"), call(content="I look.")])
    assert "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=" in text


def test_gpt_oss_names_the_function_that_a_result_answers() -> None:
    both = call()
    both["tool_calls"].append({"id": "moon00001", "function": {"name": "moon", "arguments": {}}})
    text = render("gpt-oss", [user("Q"), both, result("full", "moon00001"), result("06:40")])
    assert text.index("functions.moon to=assistant") < text.index("functions.tide to=assistant")


def test_gpt_oss_ends_a_last_answer_with_return_and_keeps_its_analysis() -> None:
    text = render("gpt-oss", [user("Q"), answer("A.", reasoning_content="Hm.")], prompt=False)
    assert text.endswith("analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>A.<|return|>")


def test_gpt_oss_refuses_channels_inside_content() -> None:
    with pytest.raises(TemplateRefused, match="Harmony channels"):
        render("gpt-oss", [user("Q"), answer("<|channel|>final<|message|>A.")])


def test_llama3_puts_the_tools_into_the_first_user_message() -> None:
    text = render("llama3", tool_loop(), [TOOL], {"date_string": "04 May 2026"})
    header = "<|start_header_id|>{}<|end_header_id|>\n\n"
    assert text == (
        f"<|begin_of_text|>{header.format('system')}Environment: ipython\nCutting Knowledge Date: December 2023\n"
        "Today Date: 04 May 2026\n\nBe brief.<|eot_id|>"
        f"{header.format('user')}Given the following functions, please respond with a JSON for a function call "
        "with its proper arguments that best answers the given prompt.\n\n"
        'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.'
        f"Do not use variables.\n\n{json.dumps(TOOL, indent=4)}\n\nHigh water?<|eot_id|>"
        f'{header.format("assistant")}{{"name": "tide", "parameters": {{"day": "Friday"}}}}<|eot_id|>'
        f'{header.format("ipython")}"06:40"<|eot_id|>'
        f"{header.format('assistant')}At 06:40.<|eot_id|>"
        f"{header.format('user')}Sure?<|eot_id|>{header.format('assistant')}"
    )


def test_llama3_can_keep_the_tools_in_the_system_turn() -> None:
    system_turn, user_turn = render("llama3", [user("Q")], [TOOL], {"tools_in_user_message": False}).split(
        "<|eot_id|>"
    )[:2]
    assert json.dumps(TOOL, indent=4) in system_turn
    assert user_turn.endswith("<|end_header_id|>\n\nQ")


def test_llama3_refuses_parallel_calls() -> None:
    both = call()
    both["tool_calls"] *= 2
    with pytest.raises(TemplateRefused, match="one tool call a message, not 2"):
        render("llama3", [user("Q"), both])


def test_gemma3_opens_the_first_user_turn_with_the_system_text() -> None:
    assert render("gemma3", [system("Be brief."), user(" Q "), answer("A."), user("R")]) == (
        "<bos><start_of_turn>user\nBe brief.\n\nQ<end_of_turn>\n<start_of_turn>model\nA.<end_of_turn>\n"
        "<start_of_turn>user\nR<end_of_turn>\n<start_of_turn>model\n"
    )


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([user("Q"), user("R")], "alternate"),
        ([answer("A.")], "alternate"),
        ([user("Q"), call()], "no tool calls"),
        ([user("Q"), result("06:40")], "not tool"),
        ([system("Be brief.")], "no user message"),
    ],
)
def test_gemma3_refuses_what_it_has_no_place_for(messages: list[Message], reason: str) -> None:
    with pytest.raises(TemplateRefused, match=reason):
        render("gemma3", messages)


def test_gemma4_keeps_a_tool_loop_inside_one_model_turn() -> None:
    messages = tool_loop()
    messages[2]["reasoning_content"] = messages[4]["reasoning_content"] = "Look."
    before = "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nHigh water?<turn|>\n<|turn>model\n"
    loop = (
        '<|tool_call>call:tide{day:<|"|>Friday<|"|>}<tool_call|>'
        '<|tool_response>response:tide{value:<|"|>06:40<|"|>}<tool_response|>'
    )
    assert render("gemma4", messages[:5]) == (
        f"{before}<|channel>thought\nLook.\n<channel|>{loop}At 06:40.<turn|>\n"
        "<|turn>model\n<|channel>thought\n<channel|>"
    )
    assert render("gemma4", messages).startswith(f"{before}{loop}At 06:40.<turn|>\n<|turn>user\n")


def test_gemma4_adds_no_generation_prompt_to_an_open_turn() -> None:
    messages = tool_loop()[:4]
    assert render("gemma4", messages) == render("gemma4", messages, prompt=False)


def test_gemma4_ends_an_unanswered_call_with_the_token_that_its_result_begins_with() -> None:
    waiting = render("gemma4", tool_loop()[:3])
    assert waiting.endswith("<|tool_response>")
    assert render("gemma4", tool_loop()[:4]).startswith(waiting)


def test_gemma4_closes_an_open_turn_before_somebody_else_speaks() -> None:
    assert "<tool_response|><turn|>\n<|turn>user\nNever mind." in render(
        "gemma4", [*tool_loop()[:4], user("Never mind.")]
    )


def test_gemma4_declares_tools_in_its_own_notation() -> None:
    properties = {
        "type": {"type": ["string", "null"], "description": "Kind."},
        "list": {"type": "array", "items": {"type": "integer"}},
    }
    tool = {"function": {"name": "f", "description": "D.", "parameters": {"type": "object", "properties": properties}}}
    assert render("gemma4", [user("Q")], [tool], {"enable_thinking": True}).startswith(
        '<bos><|turn>system\n<|think|>\n<|tool>declaration:f{description:<|"|>D.<|"|>,parameters:{properties:{'
        'list:{items:{type:<|"|>INTEGER<|"|>},type:<|"|>ARRAY<|"|>},'
        'type:{description:<|"|>Kind.<|"|>,nullable:true,type:<|"|>STRING<|"|>}},type:<|"|>OBJECT<|"|>}}<tool|><turn|>\n'
    )


def test_mistral_v3_moves_system_text_and_tools_to_the_last_user_turn() -> None:
    # As mistral-common 1.13.1 renders it.
    assert render("mistral-v3", tool_loop(), [TOOL]) == (
        "<s>[INST] High water?[/INST]"
        '[TOOL_CALLS] [{"name": "tide", "arguments": {"day": "Friday"}, "id": "tide00001"}]</s>'
        '[TOOL_RESULTS] {"content": "06:40", "call_id": "tide00001"}[/TOOL_RESULTS] At 06:40.</s>'
        f"[AVAILABLE_TOOLS] [{TOOL_JSON}][/AVAILABLE_TOOLS][INST] Be brief.\n\nSure?[/INST]"
    )


def test_mistral_v3_leaves_a_result_that_is_json_as_it_is() -> None:
    assert '{"content": {"high": "06:40"}, "call_id"' in render(
        "mistral-v3", [user("Q"), call(), result('{"high": "06:40"}')]
    )


def test_mistral_v7_keeps_system_text_in_place_and_moves_the_tools() -> None:
    assert render("mistral-v7", tool_loop(), [TOOL]) == (
        "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]High water?[/INST]"
        '[TOOL_CALLS][{"name": "tide", "arguments": {"day": "Friday"}, "id": "tide00001"}]</s>'
        "[TOOL_RESULTS]tide00001[TOOL_CONTENT]06:40[/TOOL_RESULTS]At 06:40.</s>"
        f"[AVAILABLE_TOOLS][{TOOL_JSON}][/AVAILABLE_TOOLS][INST]Sure?[/INST]"
    )


@pytest.mark.parametrize("name", ["mistral-v3", "mistral-v7"])
@pytest.mark.parametrize(
    ("second", "reason"), [(user("R"), "must alternate"), (call(identifier="short"), "9 characters, not short")]
)
def test_mistral_refuses_what_its_validator_refuses(name: str, second: Message, reason: str) -> None:
    with pytest.raises(TemplateRefused, match=reason):
        render(name, [user("Q"), second])


def test_deepseek_hoists_all_system_texts_and_closes_the_think_tag() -> None:
    messages = [*tool_loop(), system("Now in Danish.")]
    assert render("deepseek", messages) == (
        "<｜begin▁of▁sentence｜>Be brief.\n\nNow in Danish.<｜User｜>High water?<｜Assistant｜></think>"
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tide<｜tool▁sep｜>"
        '{"day": "Friday"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>'
        "<｜tool▁output▁begin｜>06:40<｜tool▁output▁end｜>At 06:40.<｜end▁of▁sentence｜>"
        "<｜User｜>Sure?<｜Assistant｜></think>"
    )


@pytest.mark.parametrize("switch", ["thinking", "enable_thinking"])
def test_deepseek_opens_the_think_tag_of_the_generation_prompt_when_asked(switch: str) -> None:
    assert render("deepseek", [user("Q")], kwargs={switch: True}).endswith("<｜User｜>Q<｜Assistant｜><think>")


def test_deepseek_adds_no_generation_prompt_after_a_tool_result() -> None:
    assert render("deepseek", tool_loop()[:4]).endswith("06:40<｜tool▁output▁end｜>")


def test_deepseek_describes_the_tools_after_the_system_text() -> None:
    text = render("deepseek", [system("Be brief."), user("Q")], [TOOL])
    assert text.startswith("<｜begin▁of▁sentence｜>Be brief.\n\n## Tools\n")
    assert f"### tide\nDescription: High water.\n\nParameters: {json.dumps(TOOL['function']['parameters'])}\n" in text


def test_qwen3_coder_writes_calls_and_tools_as_xml() -> None:
    text = render("qwen3-coder", [user("Q"), call({"day": "Friday", "at": [1, True]}, content="I look.")], [TOOL])
    assert text.startswith("<|im_start|>system\nYou are Qwen, ")
    assert (
        "<function>\n<name>tide</name>\n<description>High water.</description>\n<parameters>\n<parameter>\n"
        '<name>day</name>\n<type>string</type>\n</parameter>\n<required>["day"]</required>\n</parameters>\n</function>'
    ) in text
    assert text.endswith(
        "<|im_start|>assistant\nI look.\n\n<tool_call>\n<function=tide>\n<parameter=day>\nFriday\n</parameter>\n"
        "<parameter=at>\n[1, true]\n</parameter>\n</function>\n</tool_call><|im_end|>\n<|im_start|>assistant\n"
    )
