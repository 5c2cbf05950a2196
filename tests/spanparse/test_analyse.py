"""What an analysis says about templates that do one thing each, and about the bundled ones."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

import pytest

from spanparse import Analysis, Limits, TemplateError, TemplateLimit, TemplateSource, analyse, load_source
from spanparse.analysis import to_json
from spanparse.sources import bundled_names

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def source(text: str, **special: str) -> TemplateSource:
    return TemplateSource("test", text, hashlib.sha256(text.encode()).hexdigest(), None, special)


@cache
def bundled(name: str) -> Analysis:
    return analyse(load_source(name))


def markers(analysis: Analysis) -> dict[str, tuple[str | None, str | None]]:
    return {found.role: (found.start, found.end) for found in analysis.roles}


def says(analysis: Analysis, name: str) -> dict[str, list[str]]:
    """What each value of a variable changes, in words."""
    (variable,) = [found for found in analysis.variables if found.name == name]
    return {json.dumps(effect.value): [change.says for change in effect.changes] for effect in variable.effects}


def refusals(analysis: Analysis) -> dict[str, str]:
    return {verdict.shape: verdict.refused for verdict in analysis.verdicts if verdict.refused is not None}


def habits(analysis: Analysis) -> set[tuple[str, str, str | None]]:
    return {(habit.what, habit.role, habit.field) for habit in analysis.habits}


# --- markers ------------------------------------------------------------------------------------------------------


def test_each_role_has_its_start_and_end_marker() -> None:
    found = markers(analyse(source(CHATML)))
    assert found["system"] == ("<|im_start|>system\n", "<|im_end|>\n")
    assert found["user"] == ("<|im_start|>user\n", "<|im_end|>\n")
    assert found["assistant"] == ("<|im_start|>assistant\n", "<|im_end|>\n")


@pytest.mark.parametrize(
    ("name", "role", "start", "end"),
    [
        ("chatml", "tool", "<|im_start|>user\n<tool_response>\n", "\n</tool_response><|im_end|>\n"),
        ("gpt-oss", "assistant", "<|start|>assistant", "<|end|>"),
        ("gpt-oss", "tool", "<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>", "<|end|>"),
        ("gemma3", "assistant", "<start_of_turn>model\n", "<end_of_turn>\n"),
        ("gemma4", "assistant", "<|turn>model\n", "<turn|>\n"),
        ("llama3", "user", "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
        ("mistral-v3", "user", "[INST] ", "[/INST]"),
        ("mistral-v7", "system", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        ("deepseek", "user", "<｜User｜>", None),
    ],
)
def test_markers_of_the_families(name: str, role: str, start: str, end: str | None) -> None:
    assert markers(bundled(name))[role] == (start, end)


def test_a_role_without_a_header_of_its_own_has_no_start() -> None:
    assert markers(bundled("mistral-v7"))["assistant"] == (None, "</s>")


def test_what_stands_in_front_of_the_first_turn_alone_is_not_in_the_start_marker() -> None:
    template = (
        "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}"
        "{% for m in messages %}{% if m.role == 'user' %}{{ '[SETTINGS]{}[/SETTINGS]' if m == users[0] }}"
        "[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    user = analyse(source(template)).markers_of("user")
    assert user is not None
    assert (user.start, user.other_starts) == ("[INST]", ("[SETTINGS]{}[/SETTINGS][INST]",))


def test_what_opens_reasoning_starts_no_answer() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}"
        "{{ '[THINK]' ~ m.reasoning_content ~ '[/THINK]' if m.reasoning_content }}{{ m.content }}</s>{% endif %}"
        "{% endfor %}"
    )
    assistant = analyse(source(template)).markers_of("assistant")
    assert assistant is not None
    assert (assistant.start, assistant.other_starts) == (None, ())


def test_an_end_that_depends_on_being_last_is_listed_beside_the_usual_one() -> None:
    assistant = bundled("gpt-oss").markers_of("assistant")
    assert assistant is not None
    assert assistant.other_ends == ("<|return|>",)


def test_a_system_text_inside_the_user_s_turn_is_said_to_share_it() -> None:
    system = bundled("gemma3").markers_of("system")
    assert system is not None
    assert system.start == "<start_of_turn>user\n"
    assert system.merged_with == ("user",)


def test_the_beginning_of_sequence_is_part_of_the_marker_where_every_turn_has_it() -> None:
    template = "{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    assert markers(analyse(source(template, bos_token="<s>")))["user"][0] == "<s>user: "


def test_a_default_system_text_does_not_get_into_the_user_s_marker() -> None:
    template = (
        "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n"
        "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    assert markers(analyse(source(template)))["user"][0] == "<|im_start|>user\n"


def test_content_that_a_template_takes_only_as_parts_is_given_as_parts() -> None:
    template = "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}\n{% endfor %}"
    found = analyse(source(template))
    assert found.content_as == "parts"
    assert markers(found)["user"][0] == "<user>"


# --- reasoning and tool calls -------------------------------------------------------------------------------------


def test_reasoning_that_goes_with_the_next_user_message() -> None:
    reasoning = bundled("chatml").reasoning
    assert reasoning is not None
    # A template sees reasoning under the name it reads, whichever of the three the caller used.
    assert reasoning.fields == ("reasoning_content", "reasoning", "thinking")
    assert (reasoning.start, reasoning.end) == ("<think>\n", "\n</think>\n\n")
    assert reasoning.kept == "since the last user message"
    assert reasoning.inline == "dropped from earlier turns"


def test_reasoning_that_stays() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{% if m.reasoning %}<think>{{ m.reasoning }}</think>{% endif %}"
        "{{ m.content }}\n{% endfor %}"
    )
    reasoning = analyse(source(template)).reasoning
    assert reasoning is not None
    assert reasoning.fields == ("reasoning",)
    assert (reasoning.start, reasoning.end) == ("<think>", "</think>")
    assert reasoning.kept == "always"
    assert reasoning.inline == "kept"


def test_reasoning_that_only_a_variable_brings_out() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{% if thinking and m.reasoning_content %}"
        "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}\n{% endfor %}"
    )
    reasoning = analyse(source(template)).reasoning
    assert reasoning is not None
    assert reasoning.needs == (("thinking", True),)


def test_a_template_that_reads_no_reasoning_has_none() -> None:
    assert analyse(source(CHATML)).reasoning is None


def test_tool_calls_are_taken_apart_at_the_names_and_arguments() -> None:
    calls = bundled("chatml").tool_calls
    assert calls is not None
    assert (calls.start, calls.separator, calls.end) == (
        '<tool_call>\n{"name": "',
        '", "arguments": ',
        "}\n</tool_call>",
    )
    assert calls.between == "\n"
    assert calls.arguments == "json"
    assert calls.string_arguments == "verbatim"


def test_calls_in_one_list_have_a_section_around_them() -> None:
    calls = bundled("mistral-v7").tool_calls
    assert calls is not None
    assert (calls.section_start, calls.section_end, calls.between) == ("[TOOL_CALLS][", "]", ", ")
    assert calls.end == ', "id": "{id}"}'


COUNTING = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}<|calls|>["
    "{% for call in m.tool_calls %}CALL{% if not loop.last %}, {% endif %}{% endfor %}]{% endif %}<|end|>{% endfor %}"
)


@pytest.mark.parametrize(
    ("call", "start", "separator"),
    [
        (
            '{"nr": "{{ loop.index0 }}", "do": "{{ call.function.name }}", "with": {{ call.function.arguments }}}',
            '{"nr": "{id}", "do": "',
            '", "with": ',
        ),
        (
            "<|do|>{{ call.function.name }}:{{ loop.index }}<|with|>{{ call.function.arguments | tojson }}<|done|>",
            "<|do|>",
            ":{id}<|with|>",
        ),
    ],
)
def test_the_number_that_a_template_counts_calls_by_is_an_id(call: str, start: str, separator: str) -> None:
    calls = analyse(source(COUNTING.replace("CALL", call))).tool_calls
    assert calls is not None
    assert (calls.section_start, calls.start, calls.separator) == ("<|calls|>[", start, separator)
    assert (calls.between, calls.section_end) == (", ", "]")


def test_no_marker_of_a_call_is_torn() -> None:
    calls = bundled("deepseek").tool_calls
    assert calls is not None
    assert (calls.section_start, calls.start) == ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>")
    assert (calls.end, calls.section_end) == ("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")


def test_two_calls_at_once_that_are_refused_leave_what_stands_between_unknown() -> None:
    calls = bundled("llama3").tool_calls
    assert calls is not None
    assert calls.between is None


def test_string_arguments_that_are_encoded_twice_are_told() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
        "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}\n{% endfor %}"
    )
    calls = analyse(source(template)).tool_calls
    assert calls is not None
    assert calls.string_arguments == "encoded again"


def test_where_the_tools_stand_depends_on_the_conversation() -> None:
    homes = {block.situation: (block.role, block.which, block.place) for block in bundled("chatml").tools}
    assert homes["without a system message"] == (None, None, None)
    assert homes["with a system message"] == ("system", "only", "after the text")


def test_tools_that_move_to_the_last_user_message_are_told() -> None:
    (block,) = [b for b in bundled("mistral-v7").tools if b.situation == "in a long conversation"]
    assert (block.role, block.which, block.place, block.format) == ("user", "last", "before the text", "json")


# --- variables ----------------------------------------------------------------------------------------------------


def test_a_variable_that_changes_the_generation_prompt() -> None:
    assert says(bundled("chatml"), "enable_thinking") == {
        "true": [],
        "false": ["appends “⏎</think>⏎⏎” to the generation prompt"],
    }


def test_a_variable_that_keeps_reasoning() -> None:
    assert says(bundled("chatml"), "preserve_thinking") == {
        "true": ["shows the reasoning of earlier turns"],
        "false": [],
    }


def test_a_variable_that_moves_the_tools() -> None:
    assert says(bundled("llama3"), "tools_in_user_message")["false"][0] == (
        "moves the tools from the first user message to the system message"
    )


def test_a_variable_that_is_printed_is_tried_with_a_text_alone() -> None:
    template = "Today is {{ today or 'Monday' }}. " + CHATML
    assert says(analyse(source(template)), "today") == {
        '"Saturday"': ["writes “Saturday” instead of “Monday” in the preamble"]
    }


def test_a_variable_is_tried_with_what_the_template_compares_it_with() -> None:
    template = (
        "{% set mode = effort or 'low' %}" + CHATML + "{% if mode == 'high' %}!{% elif mode == 'none' %}?{% endif %}"
    )
    assert list(says(analyse(source(template)), "effort")) == ['"high"', '"none"']


def test_a_variable_that_needs_another_is_tried_together_with_it() -> None:
    template = CHATML + "{% if think %}<think>{% if budget %}short{% endif %}{% endif %}"
    (variable,) = [found for found in analyse(source(template)).variables if found.name == "budget"]
    assert [effect.together_with for effect in variable.effects if effect.changes] == [(("think", True),)]


def test_a_value_that_the_template_refuses_is_said_to_be() -> None:
    template = (
        "{% if level is defined and level not in ['low', 'high'] %}{{ raise_exception('no such level') }}{% endif %}"
        "{% if level == 'odd' %}{% endif %}" + CHATML
    )
    (variable,) = analyse(source(template)).variables
    assert {effect.value: effect.refused for effect in variable.effects} == {
        "low": None,
        "high": None,
        "odd": "no such level",
    }


def test_a_variable_that_changes_nothing_does_not_matter() -> None:
    (variable,) = analyse(source("{% if unused %}{% endif %}" + CHATML)).variables
    assert not variable.matters


# --- refusals and habits ------------------------------------------------------------------------------------------


def test_what_is_refused_is_told_in_the_template_s_own_words() -> None:
    found = refusals(bundled("mistral-v3"))
    assert found["system message in the middle"] == "Only the first message may be a system message"
    assert "one user message" not in found


def test_a_message_that_is_dropped_without_a_word_is_lost() -> None:
    template = "{% for m in messages if m.role != 'developer' %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    (verdict,) = [v for v in analyse(source(template)).verdicts if v.shape == "developer message"]
    assert verdict.refused is None
    assert verdict.loses == ("messages[0] (developer)",)


def test_tools_that_are_not_shown_are_lost() -> None:
    (verdict,) = [v for v in analyse(source(CHATML)).verdicts if v.shape == "tool definitions"]
    assert verdict.loses == ("tools",)


@pytest.mark.parametrize(
    ("name", "habit"),
    [
        ("deepseek", ("hoists", "system", None)),
        ("mistral-v3", ("moves", "system", None)),
        ("gemma3", ("merges", "system", None)),
        ("chatml", ("merges", "tool", None)),
        ("gemma3", ("trims", "user", "content")),
        ("mistral-v3", ("writes as JSON", "tool", "content")),
        ("chatml", ("shortens", "assistant", "content")),
    ],
)
def test_what_templates_do_to_messages(name: str, habit: tuple[str, str, str | None]) -> None:
    assert habit in habits(bundled(name))


def test_a_list_that_is_printed_as_python_writes_it_is_not_called_dropped() -> None:
    found = analyse(source("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"))
    assert ("writes as Python", "user", "content") in habits(found)
    assert ("drops", "user", "content") not in habits(found)


# --- surroundings -------------------------------------------------------------------------------------------------


def test_the_beginning_of_sequence_and_where_it_comes_from() -> None:
    bos = analyse(source("{{ bos_token }}" + CHATML, bos_token="<s>")).bos
    assert bos is not None
    assert (bos.text, bos.from_variable, bos.written) == ("<s>", True, 1)


def test_a_special_token_that_nobody_gives_has_a_stand_in() -> None:
    (token,) = analyse(source("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")).special_tokens
    assert (token.name, token.text, token.given) == ("eos_token", "</s>", False)


def test_kwargs_replace_the_stand_in() -> None:
    template = source("{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}")
    found = analyse(template, kwargs={"eos_token": "<|stop|>"})
    assert markers(found)["user"][1] == "<|stop|>"
    assert [token.given for token in found.special_tokens] == [True]


@pytest.mark.parametrize(
    ("layout", "changes"),
    [("%Y-%m-%d", "every day"), ("%H:%M", "within the day"), ("%B %Y", "every month"), ("%Y", "every year")],
)
def test_how_often_the_clock_changes_the_prompt(layout: str, changes: str) -> None:
    clock = analyse(source(f"{{{{ strftime_now('{layout}') }}}}\n" + CHATML)).clock
    assert (clock.changes, clock.where) == (changes, "preamble")


def test_a_template_that_asks_for_no_date_never_changes() -> None:
    assert analyse(source(CHATML)).clock.changes == "never"


def test_the_placeholders_of_media() -> None:
    media = {medium.kind: medium.placeholder for medium in bundled("chatml").media}
    assert media["image"] == "<|vision_start|><|image_pad|><|vision_end|>"


def test_the_default_text_and_the_generation_prompt() -> None:
    found = analyse(source("Be kind.\n" + CHATML))
    assert found.default_text == "Be kind.\n"
    assert found.generation_prompt is not None
    assert found.generation_prompt.text == "<|im_start|>assistant\n"


# --- the whole ----------------------------------------------------------------------------------------------------


def test_a_template_that_refuses_everything_is_a_finding() -> None:
    found = analyse(source("{{ raise_exception('not today') }}"))
    assert found.accepts_nothing == "not today"
    assert found.roles == ()


def test_a_variable_without_which_everything_is_refused_is_required() -> None:
    found = analyse(source("{{ 'Hello ' + city }}\n" + CHATML))
    assert found.required == (("city", "Saturday"),)
    assert found.accepts_nothing is None


def test_a_template_that_does_not_compile_is_an_error() -> None:
    with pytest.raises(TemplateError, match="line 1"):
        analyse(source("{% for %}"))


def test_the_time_limit_holds_for_the_whole_analysis() -> None:
    slow = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}" + CHATML
    with pytest.raises(TemplateLimit):
        analyse(source(slow), limits=Limits(seconds=0.2))


@pytest.mark.parametrize("name", bundled_names())
def test_an_analysis_of_a_bundled_template_is_json_and_the_same_each_time(name: str) -> None:
    first, second = (json.dumps(to_json(analyse(load_source(name)))) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", bundled_names())
def test_every_bundled_template_is_exact_on_all_that_it_takes(name: str) -> None:
    assert bundled(name).inexact == ()


def test_the_document_has_every_finding() -> None:
    document: dict[str, Any] = to_json(bundled("chatml"))
    assert document["schema_version"] == 1
    assert document["template"]["family"] == "chatml"
    assert document.keys() >= {
        "roles", "generation_prompt", "reasoning", "tool_calls", "tools", "variables", "shapes", "habits", "bos",
        "clock", "media", "llama_cpp",
    }  # fmt: skip
    assert document["roles"]["user"]["start"] == "<|im_start|>user\n"
