from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spanparse.deferred import Deferred
from spanparse.spans import MessageSpan, Note, Part, Rendering
from spanparse.tokens import HuggingFaceTokenizer, LlamaVocabulary, TokenMap, to_json, token_map

Chat = Callable[..., Rendering]
Prompt = Callable[[], Any]
Small = dict[str, HuggingFaceTokenizer]


def spelled(tokens: TokenMap, backend: HuggingFaceTokenizer, begin: int, end: int) -> str:
    return backend.pieces.spell(tokens.ids[begin:end]).decode()


@given(st.lists(st.text("ab é日\n", max_size=10), max_size=4))
def test_the_ranges_of_preamble_messages_and_generation_prompt_tile_the_tokens(
    small: Small, chat: Chat, contents: list[str]
) -> None:
    tokens = token_map(chat(contents, bos="<s>"), small["byte-level"])
    assert tokens.generation_prompt is not None
    ranges = [tokens.preamble, *(r for m in tokens.message_ranges for r in m.pieces), tokens.generation_prompt]
    assert [r.begin for r in ranges] == [0, *(r.end for r in ranges[:-1])]
    assert ranges[-1].end == tokens.count == len(tokens.ids) == len(tokens.offsets)


@given(st.lists(st.text("ab é日\n", max_size=10), max_size=4))
def test_the_tokens_of_a_message_spell_its_text(small: Small, chat: Chat, contents: list[str]) -> None:
    backend = small["byte-level"]
    rendering = chat(contents)
    tokens = token_map(rendering, backend)
    for message, span in zip(tokens.message_ranges, rendering.messages, strict=True):
        (piece,) = message.pieces
        assert spelled(tokens, backend, piece.begin, piece.end) == rendering.text[span.start : span.end]


def test_a_bos_that_is_not_in_the_text_belongs_to_the_preamble(llama_spm: LlamaVocabulary, chat: Chat) -> None:
    tokens = token_map(chat(["hello"]), llama_spm)
    assert tokens.preamble == (0, 1, 0, 1)
    assert tokens.message_ranges[0].pieces[0].begin == 1


def test_positions_are_token_indices_without_media(small: Small, chat: Chat) -> None:
    tokens = token_map(chat(["hello", "world"]), small["byte-level"])
    for message in tokens.message_ranges:
        assert all((piece.pos_begin, piece.pos_end) == (piece.begin, piece.end) for piece in message.pieces)
    assert [barrier.position for barrier in tokens.barriers] == [barrier.token for barrier in tokens.barriers]


def with_messages(rendering: Rendering, *messages: MessageSpan) -> Rendering:
    return replace(rendering, spans=Deferred.done(replace(rendering.spans.value, messages=messages)))


def test_positions_after_media_are_unknown(small: Small, chat: Chat) -> None:
    rendering = chat(["hello", "image", "world"])
    first, second, third = rendering.messages
    content = Part("content", second.start or 0, second.end or 0, children=(Part("media", 32, 37),))
    with_media = with_messages(rendering, first, replace(second, parts=(content,)), third)
    tokens = token_map(with_media, small["byte-level"])
    positions = [(piece.pos_begin, piece.pos_end) for m in tokens.message_ranges for piece in m.pieces]
    begin = tokens.message_ranges[1].pieces[0].begin
    assert positions == [(0, begin), (begin, None), (None, None)]
    assert [barrier.position for barrier in tokens.barriers] == [begin, None, None]
    block = to_json(tokens)["tokens"]
    assert (block["media"], block["exact"]) == (None, False)


def test_a_dropped_message_has_no_tokens(small: Small, chat: Chat) -> None:
    rendering = chat(["hello"])
    dropped = MessageSpan(1, "developer", (), (), notes=(Note("dropped"),))
    tokens = token_map(with_messages(rendering, *rendering.messages, dropped), small["byte-level"])
    assert to_json(tokens)["tokens"]["messages"][1] == {
        "index": 1,
        "begin": None,
        "end": None,
        "pos_begin": None,
        "pos_end": None,
        "backed_off": 0,
    }


def test_a_message_in_two_pieces_has_a_range_for_each(small: Small, prompt: Prompt) -> None:
    rendering = prompt().add(0, "<|user|>").add(1, "<|user|>", ("hello",)).add(0, "<|end|>", ("world",)).rendering()
    tokens = token_map(rendering, small["byte-level"])
    message = to_json(tokens)["tokens"]["messages"][0]
    first, second = message["pieces"]
    assert (message["begin"], message["end"]) == (first["begin"], second["end"]) == (0, tokens.count)
    assert first["end"] < second["begin"]


def test_a_message_backs_off_as_far_as_the_barrier_where_it_begins(small: Small, prompt: Prompt) -> None:
    rendering = prompt().add(0, "<|user|>", ("hello",)).add(1, "and", ("world",)).rendering()
    tokens = token_map(rendering, small["byte-level"])
    assert [message.backed_off for message in tokens.message_ranges] == [0, tokens.barriers[0].backed_off]
    assert tokens.barriers[0].backed_off > 0


def test_the_json_form_follows_the_contract(small: Small, chat: Chat) -> None:
    tokens = token_map(chat(["hello", "world"]), small["byte-level"])
    block = json.loads(json.dumps(to_json(tokens)))
    message = tokens.message_ranges[0].pieces[0]
    assert block["tokens"]["count"] == tokens.count
    assert block["tokens"]["media"] == []
    assert block["tokens"]["messages"][0] == {
        "index": 0,
        "begin": 0,
        "end": message.end,
        "pos_begin": 0,
        "pos_end": message.end,
        "backed_off": 0,
    }
    assert block["barriers"][0] == {
        "offset": 22,
        "token": message.end,
        "position": message.end,
        "backed_off": 0,
        "stable": True,
        "kind": "user_start",
        "message": 1,
    }
