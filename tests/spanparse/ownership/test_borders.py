"""Borders: a header, a trailer and a default text belong to whom they are for, whichever iteration wrote them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from spanparse import Reason, Rendering, TemplateSource, parse

Message = dict[str, Any]
CHAT: list[Message] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "so"},
]
CALLS: list[Message] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": ""},
    {"role": "tool", "content": "5"},
    {"role": "assistant", "content": "yes"},
]


def render(
    template: str, messages: list[Message], *, add: bool = False, tools: list[dict[str, Any]] | None = None
) -> Rendering:
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    return parse(source, messages, tools=tools, add_generation_prompt=add)


def owners(
    template: str, messages: list[Message], *, add: bool = False, tools: list[dict[str, Any]] | None = None
) -> list[tuple[int | str, str]]:
    """(message, text) of every stretch in text order; "-" is the preamble, ">" the generation prompt."""
    rendering = render(template, messages, add=add, tools=tools)
    assert rendering.exact
    stretches: list[tuple[int, int, int | str]] = [
        (piece.start, piece.end, message.index) for message in rendering.messages for piece in message.pieces
    ]
    if rendering.preamble.end > rendering.preamble.start:
        stretches.append((rendering.preamble.start, rendering.preamble.end, "-"))
    if rendering.generation_prompt:
        stretches.append((*rendering.generation_prompt, ">"))
    return [(owner, rendering.text[start:end]) for start, end, owner in sorted(stretches, key=lambda s: s[0])]


def test_a_header_at_the_end_of_a_turn_is_the_next_messages_however_many_texts_it_was_written_in() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<|user|>' + m.content + '<|end|>' + '\n' }}"
        "{{ '<|assistant|>' }}{{ '</think>' }}{% else %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    assert owners(template, CHAT[:2]) == [
        (0, "<|user|>hi<|end|>\n"),
        (1, "<|assistant|></think>yes<|end|>"),
    ]


def test_a_header_behind_two_messages_in_one_turn_is_the_next_ones() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}{% if loop.first %}{{ '<|user|>' + m.content }}"
        "{% for n in messages if n.role == 'user' and n is not sameas(m) %}{{ ' ' + n.content }}{% endfor %}"
        "{{ '<|assistant|></think>' }}{% endif %}{% else %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    two = [CHAT[0], CHAT[2], CHAT[1]]
    assert [owner for owner, text in owners(template, two) if "<|assistant|>" in text] == [2]


def test_a_header_is_handed_on_to_a_message_that_says_nothing() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|>{{ '<|assistant|>' }}"
        "{% elif m.role == 'assistant' %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    assert owners(template, CALLS[:2]) == [(0, "<|user|>hi<|end|>"), (1, "<|assistant|><|end|>")]


def test_a_message_that_says_nothing_keeps_its_own_header() -> None:
    template = "{% for m in messages %}{{ ' <|' + m.role + '|>' }}{{ m.content }} <|end|>{% endfor %}"
    empty: list[Message] = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    assert owners(template, empty) == [(0, " <|user|> <|end|>"), (1, " <|assistant|> <|end|>")]


OUTPUTS = (
    "{% set ns = namespace(open=false) %}{% for m in messages %}"
    "{% if m.role == 'tool' %}{{ '' if ns.open else '<｜tool▁outputs▁begin｜>' }}[{{ m.content }}]"
    "{% set ns.open = true %}"
    "{% else %}{{ '<｜tool▁outputs▁end｜>' if ns.open else '<｜' + m.role + '｜>' }}{% set ns.open = false %}"
    "{{ m.content }}{{ '<｜end▁of▁sentence｜>' if m.role == 'assistant' }}{% endif %}{% endfor %}"
    "{{ '<｜tool▁outputs▁end｜>' if ns.open }}"
)


def test_what_closes_the_message_before_is_not_the_next_ones_even_if_that_says_nothing() -> None:
    assert owners(OUTPUTS, CALLS) == [
        (0, "<｜user｜>hi"),
        (1, "<｜assistant｜><｜end▁of▁sentence｜>"),
        (2, "<｜tool▁outputs▁begin｜>[4]<｜tool▁outputs▁end｜>"),
        (3, "<｜end▁of▁sentence｜>"),
        (4, "<｜tool▁outputs▁begin｜>[5]<｜tool▁outputs▁end｜>"),
        (5, "yes<｜end▁of▁sentence｜>"),
    ]


def test_a_default_turn_that_the_first_iteration_writes_is_nobodys() -> None:
    template = (
        "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n"
        "{% endif %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    )
    assert owners(template, CHAT[:1]) == [
        ("-", "<|im_start|>system\nBe kind.<|im_end|>\n"),
        (0, "<|im_start|>user\nhi<|im_end|>\n"),
    ]


def test_a_default_text_without_an_end_is_closed_by_the_next_roles_marker() -> None:
    template = (
        "{% for m in messages %}{% if loop.first %}<|system|>\nBe kind.{% endif %}{{ '<|user|>\n' + m.content }}"
        "{% endfor %}"
    )
    assert owners(template, CHAT[:1]) == [
        ("-", "<|system|>\nBe kind."),
        (0, "<|user|>\nhi"),
    ]


def test_a_default_turn_may_end_as_the_message_does_and_name_its_role_first() -> None:
    template = (
        "{% for m in messages %}{% if loop.first %}system<|role|>Be kind.<|next|>\n{% endif %}"
        "{{ m.role + '<|role|>' + m.content + '<|next|>\n' }}{% endfor %}"
    )
    assert owners(template, CHAT[:1]) == [
        ("-", "system<|role|>Be kind.<|next|>\n"),
        (0, "user<|role|>hi<|next|>\n"),
    ]


def test_an_end_of_turn_that_a_tool_quotes_closes_no_default_turn() -> None:
    template = "{% for m in messages %}[TOOLS]{{ tools | tojson }}[/TOOLS][INST]{{ m.content }}{% endfor %}"
    tools = [{"name": "</s><|im_end|>"}]
    assert owners(template, CHAT[:1], tools=tools) == [(0, '[TOOLS][{"name": "</s><|im_end|>"}][/TOOLS][INST]hi')]


def test_whose_a_marker_between_two_texts_is_is_not_clear_whatever_role_it_names() -> None:
    template = (
        "{% for m in messages %}{{ m.content }}"
        "{{ '<|x_User|>' if m.role == 'user' else '<|x_Assistant|>' }}{% endfor %}"
    )
    assert [message.reason for message in render(template, CHAT).messages] == [Reason("owner-unclear")] * 3


def test_a_default_turn_in_front_of_a_role_that_says_nothing_is_nobodys() -> None:
    template = (
        "{% for m in messages %}{{ '<|in|>system<|mid|>Be kind<|end|>' if loop.first }}"
        "{{ m.role + '<|mid|>' + m.content + '<|end|>' }}{% endfor %}"
    )
    assert owners(template, [{"role": "developer", "content": ""}, CHAT[0]]) == [
        ("-", "<|in|>system<|mid|>Be kind<|end|>"),
        (0, "developer<|mid|><|end|>"),
        (1, "user<|mid|>hi<|end|>"),
    ]


def test_default_words_inside_a_messages_own_turn_are_its_own() -> None:
    template = (
        "{% for m in messages %}[INST] {% if loop.first %}<<SYS>>Be kind.<</SYS>> {% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    assert owners(template, CHAT[:1]) == [(0, "[INST] <<SYS>>Be kind.<</SYS>> hi")]


def test_a_turn_that_is_closed_outside_all_loops_introduces_no_message() -> None:
    template = (
        "<|im_start|>system\nBe kind.<|im_end|>\n{% for m in messages %}{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    assert owners(template, CHAT[:1])[:2] == [
        ("-", "<|im_start|>system\nBe kind.<|im_end|>\n"),
        (0, "hi<|im_end|>\n"),
    ]


def test_what_is_opened_outside_all_loops_in_front_of_words_that_each_message_begins_with_is_nobodys() -> None:
    template = (
        "<s><start_of_turn>user\n{% for m in messages %}{{ 'You are asked: ' + m.content }}{% endfor %}"
        "<end_of_turn>\n<start_of_turn>model"
    )
    assert owners(template, CHAT[:1])[:2] == [
        ("-", "<s><start_of_turn>user\n"),
        (0, "You are asked: hi<end_of_turn>\n<start_of_turn>model"),
    ]


def test_tools_in_a_shared_turn_are_the_messages_whose_header_surrounds_them() -> None:
    template = (
        "{% for m in messages[1:] %}{{ '<start_of_turn>' + m.role + '\n' }}{% if loop.first %}"
        "{{ messages[0].content }}{{ '\nTools: ' }}{{ tools | tojson }}{{ '\n\n' }}{% endif %}"
        "{{ m.content + '<end_of_turn>\n' }}{% endfor %}"
    )
    messages: list[Message] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    assert owners(template, messages, tools=[{"name": "look"}]) == [
        (0, '<start_of_turn>user\nBe kind.\nTools: [{"name": "look"}]'),
        (1, "\n\nhi<end_of_turn>\n"),
    ]


def asked(ask: str, answer: str) -> str:
    """A template that writes `answer` behind each question, and nothing of its own around an answer."""
    return (
        f"{{% for m in messages %}}{{% if m.role == 'user' %}}{ask}{{{{ m.content }}}}{answer}"
        "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )


@pytest.mark.parametrize(
    ("ask", "trailer", "header"),
    [
        ("<extra_id_1>User\n", "\n", "<extra_id_1>Assistant\n"),
        ("<x>", "", "<AI>"),
        ("|Human|: ", "\n", "|Bot|: "),
        ("USER: ", "\n ", "ASSISTANT:"),
        ("<user> ", " ", "<assistant><actual_response>"),
        ("### Instruction:\n", "\n", "### Response:"),
        ("<human>", "</human>\n", "<ai>"),
    ],
)
def test_words_behind_a_question_that_name_the_assistant_are_the_answers_header(
    ask: str, trailer: str, header: str
) -> None:
    found = owners(asked(ask, trailer + header), CHAT)
    assert found[-3][1].endswith("hi" + trailer)
    assert found[-2:] == [(1, header + "yes</s>"), (2, f"{ask}so{trailer}{header}")]


def test_whose_other_words_between_a_question_and_an_answer_are_is_not_clear() -> None:
    rendering = render(asked("Q. ", "\nThey said that "), CHAT)
    unclear = Reason("owner-unclear")
    assert [message.reason for message in rendering.messages] == [unclear, unclear, None]


def test_the_header_of_an_answer_that_says_nothing_stays_its_own() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|>{{ '<|assistant|>' }}"
        "{% elif m.role == 'assistant' %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    silent: list[Message] = [CHAT[0], {"role": "assistant", "content": ""}, CHAT[1]]
    assert owners(template, silent)[1:] == [(1, "<|assistant|><|end|>"), (2, "yes<|end|>")]


def test_white_space_that_joins_the_texts_of_a_turn_is_the_turns() -> None:
    template = (
        "{% set ns = namespace(texts=[]) %}{% for m in messages %}"
        "{% if m.role == 'user' %}{% set ns.texts = ns.texts + (m.content | map(attribute='text') | list) %}"
        "{% else %}{{ '[INST]' + ns.texts | join('\n\n') + '[/INST]' }}{{ m.content }}{% endif %}{% endfor %}"
    )
    several: list[Message] = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "user", "content": [{"type": "text", "text": "three"}]},
        CHAT[1],
    ]
    assert owners(template, several) == [(0, "[INST]one\n\ntwo"), (1, "\n\nthree[/INST]"), (2, "yes")]


def test_what_closes_the_tools_in_front_of_a_question_that_says_nothing_is_clear() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}[TOOLS]({{ tools | tojson }})[/TOOLS]{{ m.content }}[/INST]"
        "{% else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"
    )
    silent: list[Message] = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    assert render(template, silent, tools=[{"name": "look"}]).exact


def test_what_closes_a_turn_of_several_results_is_the_last_ones() -> None:
    template = (
        "{% for m in messages %}{% if m.role != 'tool' %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}"
        "{% elif messages[loop.index0 - 1].role != 'tool' %}{{ '<|tool|>[' + m.content }}"
        "{% for n in messages[loop.index0 + 1:] if n.role == 'tool' %}{{ ', ' + n.content }}{% endfor %}"
        "{{ ']<|end|>' }}{% endif %}{% endfor %}"
    )
    results: list[Message] = [{"role": "tool", "content": str(number)} for number in range(4, 7)]
    assert owners(template, [*CHAT[:2], *results, CHAT[2]])[2:] == [
        (2, "<|tool|>[4"),
        (3, ", 5"),
        (4, ", 6]<|end|>"),
        (5, "<|user|>so<|end|>"),
    ]


SYSTEM_INSIDE: list[Message] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]


def test_a_variable_in_the_header_of_a_shared_turn_goes_with_the_header() -> None:
    template = (
        "{% for m in messages[1:] %}> {{ bos_token + '[INST] ' + '<<SYS>>' + messages[0].content + '<</SYS>>' + "
        "m.content + '[/INST]' }}{% endfor %}"
    )
    source = TemplateSource("test", template, "", None, {"bos_token": "<s>"})
    rendering = parse(source, SYSTEM_INSIDE, add_generation_prompt=False)
    assert rendering.text == "> <s>[INST] <<SYS>>Be kind.<</SYS>>hi[/INST]"
    assert [message.pieces for message in rendering.messages] == [((0, 35),), ((35, 44),)]


def test_the_role_of_a_turn_that_joins_two_messages_belongs_to_the_first() -> None:
    template = (
        "{% for m in [{'role': messages[1].role, 'content': messages[0].content + ' ' + messages[1].content}] %}"
        "{{ m.role + '<|says|>' + m.content + '<|end|>' }}{% endfor %}"
    )
    assert owners(template, SYSTEM_INSIDE) == [(0, "user<|says|>Be kind. "), (1, "hi<|end|>")]


def test_a_call_named_again_in_its_result_is_the_results_with_the_words_around_the_name() -> None:
    template = (
        "{% set ns = namespace(names=[]) %}{% for m in messages %}<{{ m.role }}>"
        "{% for call in m.tool_calls %}{% set name = 'functions.' + call.name + ':' %}"
        "{% set ns.names = ns.names + [name] %}{{ name + call.at }}{% endfor %}"
        "{% if m.role == 'tool' %}## Return of {{ ns.names[-1] + '0 ' }}{% endif %}{{ m.content }}{% endfor %}"
    )
    calls: list[Message] = [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "look", "at": "it"}]},
        {"role": "tool", "content": "4"},
    ]
    assert owners(template, calls) == [
        (0, "<assistant>functions.look:it"),
        (1, "<tool>## Return of functions.look:0 4"),
    ]


def test_tools_in_the_header_of_a_shared_turn_go_with_it() -> None:
    template = (
        "{% for m in messages[1:] %}[TOOLS]{% for tool in tools %}{{ tool | tojson }},{% endfor %}[/TOOLS][INST]"
        "{{ messages[0].content + ' ' + m.content }}{% endfor %}"
    )
    assert owners(template, SYSTEM_INSIDE, tools=[{"name": "look"}]) == [
        (0, '[TOOLS]{"name": "look"},[/TOOLS][INST]Be kind.'),
        (1, " hi"),
    ]


@pytest.mark.parametrize("bos", ["<｜hy_begin▁of▁sentence｜>", "<|begin_of_sentence|>", "<|beginoftext|>"])
def test_what_is_named_the_beginning_of_a_sequence_and_stands_first_is_the_preambles(bos: str) -> None:
    assert owners(bos + "{% for m in messages %}{{ m.content }}<|{{ m.role }}|>{% endfor %}", CHAT[:1]) == [
        ("-", bos),
        (0, "hi<|user|>"),
    ]


def test_what_is_named_the_beginning_of_a_role_s_turn_is_the_messages() -> None:
    template = "{% for m in messages %}<seed:bos>{{ m.role + '\n' + m.content }}<seed:eos>{% endfor %}"
    assert owners(template, CHAT[:1]) == [(0, "<seed:bos>user\nhi<seed:eos>")]


RESULT_LISTS = (
    "{% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'tool' %}"
    "{{ ', ' if ns.open else '[' }}{% set ns.open = true %}{{ m.content }}"
    "{% else %}{{ ']' if ns.open }}{% set ns.open = false %}"
    "{% if m.role == 'user' %}{{ '<|end|>' if not loop.first }}<|user|>{% endif %}{{ m.content }}"
    "{% if m.role == 'assistant' and loop.index == 2 %}<|calls|>{% endif %}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(("last", "trailer", "begin"), [("assistant", "]", "so"), ("user", "]<|end|>", "<|user|>so")])
def test_a_bracket_that_closes_the_results_is_the_last_results_whoever_follows(
    last: str, trailer: str, begin: str
) -> None:
    assert owners(RESULT_LISTS, [*CALLS[:3], CALLS[4], {"role": last, "content": "so"}])[-3:] == [
        (2, "[4"),
        (3, f", 5{trailer}"),
        (4, begin),
    ]


def test_a_bracket_that_begins_a_marker_closes_nothing() -> None:
    template = "{% for m in messages %}{{ ']~b]' + m.role + '\n' + m.content + '[e~[\n' }}{% endfor %}"
    assert owners(template, CHAT[:2]) == [(0, "]~b]user\nhi[e~[\n"), (1, "]~b]assistant\nyes[e~[\n")]


def test_a_header_behind_which_the_turn_ends_is_not_handed_on() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<|h|>user<|end_h|>{{ m.content + '<|end|>' }}"
        "<|h|>assistant<|end_h|>{% elif m.role == 'assistant' %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    assert owners(template, [CALLS[0], CALLS[1], CALLS[5]]) == [
        (0, "<|h|>user<|end_h|>hi<|end|>"),
        (1, "<|h|>assistant<|end_h|><|end|>"),
        (2, "yes<|end|>"),
    ]


RESULTS_OF_A_TURN = (
    "{% for m in messages %}{% if m.role == 'user' %}<|turn|><|user|>{{ m.content }}"
    "{% elif m.role == 'tool' and messages[loop.index0 - 1].role != 'tool' %}<|turn|><|system|>["
    "{{ m.content }};{% for r in messages[loop.index0 + 1:] %}, {{ r.content }};{% endfor %}]{% endif %}{% endfor %}"
)


def test_markers_joined_in_a_header_stay_with_the_message_that_says_nothing() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "tool", "content": ""}, {"role": "tool", "content": "5"}]
    assert owners(RESULTS_OF_A_TURN, messages) == [
        (0, "<|turn|><|user|>hi"),
        (1, "<|turn|><|system|>[;"),
        (2, ", 5;]"),
    ]


def test_a_marker_joined_to_the_header_of_a_message_that_says_nothing_may_be_the_next_ones() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|assistant|>"
        "{% else %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    assert owners(template, [{"role": "user", "content": ""}, CHAT[1]]) == [
        (0, "<|user|>"),
        (1, "<|assistant|>yes<|end|>"),
    ]


@pytest.mark.parametrize(
    "opening",
    ["<s> [INST] ", "{{ '[TOOLS][' ~ tools[0] | tojson ~ '][/TOOLS]' if loop.last or loop.index == 3 }}[INST]"],
)
def test_a_turn_that_is_closed_again_is_not_handed_on_whatever_stands_in_front_of_it(opening: str) -> None:
    template = (
        f"{{% for m in messages %}}{{% if m.role == 'user' %}}{opening}{{{{ m.content }}}}[/INST]"
        "{% else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"
    )
    messages = [{"role": "user", "content": "hi"}, CHAT[1], {"role": "user", "content": ""}, CHAT[1]]
    assert owners(template, messages, tools=[{"type": "function"}])[-1] == (3, "yes</s>")


def test_white_space_in_front_of_what_closes_a_turn_is_closed_with_it() -> None:
    template = (
        "{% for m in messages %}{% if not loop.first %}{{ '\n\n' }}{{ '<|end|>' }}{% endif %}<|{{ m.role }}|>"
        "{{ m.content }}{% endfor %}"
    )
    assert owners(template, CHAT[:2]) == [(0, "<|user|>hi\n\n<|end|>"), (1, "<|assistant|>yes")]


@pytest.mark.parametrize("block", ["[SETTINGS]{}[/SETTINGS]", "[TOOLS]{{ tools | tojson }}[/TOOLS]"])
def test_blocks_in_front_of_a_turn_are_in_its_header(block: str) -> None:
    # A list of its own, so that no loop says whose message it holds.
    template = (
        "{% set ns = namespace(all=[]) %}{% for m in messages %}"
        "{% set ns.all = ns.all + [{'role': m.role, 'content': m.content}] %}{% endfor %}"
        "{% for m in ns.all %}{% if m.role == 'system' %}[SYS]{{ m.content }}[/SYS]{% elif m.role == 'user' %}"
        f"{{% if loop.index == 4 %}}{block}{{% endif %}}[INST]{{{{ m.content }}}}[/INST]"
        "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    messages = [{"role": "system", "content": "Be kind"}, *CHAT[:2], CHAT[0]]
    found = owners(template, messages, tools=[{"type": "function"}])
    assert found[:3] == [(0, "[SYS]Be kind[/SYS]"), (1, "[INST]hi[/INST]"), (2, "yes</s>")]


def test_tools_written_out_beforehand_are_in_the_header_of_the_turn_that_shows_them() -> None:
    template = (
        "{% set written = '[TOOLS]' ~ tools | tojson ~ '[/TOOLS]' %}{% for m in messages %}"
        "{% if m.role == 'user' %}{{ written if loop.index == 3 }}[INST]{{ m.content }}[/INST]"
        "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    assert owners(template, CHAT[:3], tools=[{"type": "function"}])[1:] == [
        (1, "yes</s>"),
        (2, f'[TOOLS][{{"type": "function"}}][/TOOLS][INST]{CHAT[2]["content"]}[/INST]'),
    ]


def test_whose_the_words_are_that_were_set_aside_with_a_system_text_is_not_clear() -> None:
    template = (
        "{% set block = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% for m in messages[1:] %}"
        "{% if loop.first %}{% set said = block + m.content %}{% else %}{% set said = m.content %}{% endif %}"
        "{{ '[INST] ' + said + ' [/INST]' if m.role == 'user' else said + '</s>' }}{% endfor %}"
    )
    reasons = [m.reason for m in render(template, [{"role": "system", "content": "be"}, *CHAT]).messages]
    assert reasons == [Reason("owner-unclear"), Reason("owner-unclear"), None, None]


def test_what_closes_a_system_block_is_its_own_with_the_white_space_behind_it() -> None:
    template = (
        "{% for m in messages[1:] %}{{ '[INST] ' }}{% if loop.first %}{{ '<<SYS>>\n' + messages[0].content }}"
        "{{ '\n<</SYS>>\n\n' }}{% endif %}{{ m.content + ' [/INST]' }}{% endfor %}"
    )
    found = owners(template, [{"role": "system", "content": "be"}, CHAT[0]])
    assert found == [(0, "[INST] <<SYS>>\nbe\n<</SYS>>\n\n"), (1, "hi [/INST]")]


def test_what_closes_a_system_block_outside_all_loops_is_clear_without_a_render() -> None:
    template = (
        "{{ '[INST] <<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' + messages[1].content + ' [/INST]' }}"
        "{% for m in messages[2:] %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else m.content }}"
        "{% endfor %}"
    )
    found = owners(template, [{"role": "system", "content": "be"}, *CHAT])
    assert found[:2] == [(0, "[INST] <<SYS>>\nbe\n<</SYS>>\n\n"), (1, "hi [/INST]")]


def test_white_space_that_iterations_leave_in_front_of_the_beginning_of_the_sequence_is_the_preambles() -> None:
    template = (
        "{% for m in messages %}  {% set last = m.content %} {% endfor %}{{ '<s>' + messages[0].content }}"
        "{% for m in messages[1:] %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    )
    rendering = render(template, CHAT)
    assert rendering.text.startswith("         <s>hi<|")
    assert [(part.kind, part.start, part.end) for part in rendering.preamble.parts] == [("bos", 0, 12)]
    assert rendering.messages[0].pieces[0].start == 12


def test_what_stands_in_front_of_a_message_with_a_marker_of_its_own_is_the_one_s_before() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'tool' %}<tool_response>{{ m.content }}</tool_response>"
        "{% else %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls is defined %}<|observation|>{% endif %}{% endif %}"
        "{% endfor %}"
    )
    assert owners(template, CALLS[:3]) == [
        (0, "<|user|>hi"),
        (1, "<|assistant|><|observation|>"),
        (2, "<tool_response>4</tool_response>"),
    ]


def test_a_tag_of_the_assistant_s_name_is_the_answer_s_header_whatever_stands_around_the_name() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<_user>{{ m.content }}<_bot>{% else %}{{ m.content }}<_end>"
        "{% endif %}{% endfor %}"
    )
    assert owners(template, CHAT) == [(0, "<_user>hi"), (1, "<_bot>yes<_end>"), (2, "<_user>so<_bot>")]


def test_what_closes_a_turn_is_the_last_message_s_also_if_an_empty_text_stands_in_front_of_it() -> None:
    template = (
        "{% for m in messages if m.role != 'tool' %}<|{{ m.role }}|>{% if m.tool_calls is defined %}"
        "{{ m.name }}<tool>{{ messages[2].content }}</tool>{% endif %}{{ m.content }}<|end|>{% endfor %}"
    )
    called = {**CALLS[1], "name": "look"}
    assert [owner for owner, _ in owners(template, [CALLS[0], called, CALLS[2]])] == [0, 1, 2]


@pytest.mark.parametrize(
    ("before", "behind"), [("<|im_start|>", "\n"), ("<|", "|>"), ("[", "]"), ("<turn|", ">"), ("### ", ":\n")]
)
@pytest.mark.parametrize("role", ["loop.nextitem.role", "messages[loop.index].role"])
def test_whose_a_header_with_the_next_message_s_role_at_the_end_of_a_turn_is_is_not_clear(
    before: str, behind: str, role: str
) -> None:
    template = (
        "{% for m in messages %}{% if loop.first %}BEFORE{{ m.role }}BEHIND{% endif %}{{ m.content }}<|im_end|>\n"
        "{% if not loop.last %}BEFORE{{ ROLE }}BEHIND{% endif %}{% endfor %}"
    )
    for name, text in (("BEFORE", before), ("BEHIND", behind), ("ROLE", role)):
        template = template.replace(name, text)
    assert {message.reason for message in render(template, CHAT).messages} == {Reason("owner-unclear")}


@pytest.mark.parametrize(("before", "behind"), [("</", ">"), ("[/", "]"), ("<|end_", "|>")])
@pytest.mark.parametrize("role", ["loop.previtem.role", "messages[loop.index0 - 1].role"])
def test_whose_a_closer_with_the_role_of_the_one_before_is_is_not_clear(before: str, behind: str, role: str) -> None:
    template = (
        "{% for m in messages %}{% if not loop.first %}" + before + "{{ ROLE }}" + behind + "{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% endfor %}"
    ).replace("ROLE", role)
    assert {message.reason for message in render(template, CHAT).messages} == {Reason("owner-unclear")}
