"""Media in a token map: where tokens and positions go on after them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.tiny import vocabulary
from spanparse import ConversationError, Rendering, load_source, parse
from spanparse.media import find_placeholders
from spanparse.tokens import HuggingFaceTokenizer, TokenMap, to_json, token_map
from spanparse.tokens.media import Expansion, Insertion, media_chunk, text_chunk

BACKEND = HuggingFaceTokenizer(vocabulary.hf_tokenizer())
TEMPLATE = load_source("chatml")
PAD = BACKEND.added["<|image_pad|>"].id

Sizes = list[tuple[int, int]]
sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))


def conversation(*texts: str | None) -> list[dict[str, Any]]:
    """A message for each text, alternating roles; None is a message of text, image, text."""
    media = [{"type": "text", "text": "see "}, {"type": "image"}, {"type": "text", "text": " it"}]
    return [
        {"role": "user" if index % 2 == 0 else "assistant", "content": media if text is None else text}
        for index, text in enumerate(texts)
    ]


def expansion(number: int, n_tokens: int, n_pos: int) -> Expansion:
    chunks = (text_chunk([1, 2]), media_chunk(f"id {number}", 0, n_tokens, n_pos), text_chunk([3]))
    return Expansion(f"id {number}", chunks, exact=True)


def inserted(rendering: Rendering, expansions: list[Expansion]) -> list[Insertion]:
    return [
        Insertion(found.start, found.end, *found.place, found.index, each)
        for found, each in zip(find_placeholders(rendering), expansions, strict=False)
    ]


def mapped(messages: list[dict[str, Any]], media: Sizes, **options: Any) -> tuple[Rendering, TokenMap]:
    rendering = parse(TEMPLATE, messages)
    expansions = [expansion(number, *size) for number, size in enumerate(media)]
    return rendering, token_map(rendering, BACKEND, media=inserted(rendering, expansions), **options)


@settings(deadline=None)
@given(st.lists(st.none() | st.text("ab é.\n", max_size=8), min_size=1, max_size=5), st.data(), st.booleans())
def test_only_the_placeholders_tokens_are_replaced(
    texts: list[str | None], data: st.DataObject, trust_content: bool
) -> None:
    n_media = texts.count(None)
    media = data.draw(st.lists(sizes, min_size=n_media, max_size=n_media))
    messages = conversation(*texts)
    rendering, tokens = mapped(messages, media, trust_content=trust_content)
    plain = token_map(rendering, BACKEND, trust_content=trust_content)
    # In the plain map a placeholder is three control tokens: begin, pad, end.
    ids, offsets = list(plain.ids), list(plain.offsets)
    for number in reversed(range(n_media)):
        pad = [index for index, id in enumerate(ids) if id == PAD][number]
        new = [id for chunk in expansion(number, *media[number]).chunks for id in chunk.ids]
        ids[pad - 1 : pad + 2] = new
        offsets[pad - 1 : pad + 2] = [offsets[pad - 1]] * len(new)
    assert (tokens.ids, tokens.offsets) == (ids, offsets)
    assert tokens.media_known


@settings(deadline=None)
@given(st.lists(st.none() | st.just("a b"), min_size=1, max_size=6), st.data())
def test_positions_advance_by_those_of_media_and_else_by_tokens(texts: list[str | None], data: st.DataObject) -> None:
    media = data.draw(st.lists(sizes, min_size=texts.count(None), max_size=texts.count(None)))
    _, tokens = mapped(conversation(*texts), media)

    def position(token: int) -> int:
        before = [run for run in tokens.media if run.begin + run.n_tokens <= token]
        return token - sum(run.n_tokens - run.n_pos for run in before)

    pieces = [piece for message in tokens.message_ranges for piece in message.pieces]
    for piece in [*pieces, tokens.generation_prompt or tokens.preamble, tokens.preamble]:
        assert (piece.pos_begin, piece.pos_end) == (position(piece.begin), position(piece.end))
    for barrier in tokens.barriers:
        assert barrier.position == position(barrier.token)
    assert [run.position for run in tokens.media] == [position(run.begin) for run in tokens.media]


@settings(deadline=None)
@given(st.lists(st.none() | st.just("a b"), min_size=1, max_size=6), st.data())
def test_no_barrier_lies_inside_media(texts: list[str | None], data: st.DataObject) -> None:
    media = data.draw(st.lists(sizes, min_size=texts.count(None), max_size=texts.count(None)))
    _, tokens = mapped(conversation(*texts), media)
    for run in tokens.media:
        inside = range(run.begin + 1, run.begin + run.n_tokens)
        assert not [barrier for barrier in tokens.places if barrier.token in inside]
        assert all(id < -1 for id in tokens.ids[run.begin : run.begin + run.n_tokens])


def test_ranges_still_tile_the_tokens() -> None:
    _, tokens = mapped(conversation("hello", None, None, "bye"), [(5, 2), (3, 3)])
    assert tokens.generation_prompt is not None
    ranges = [tokens.preamble, *(r for m in tokens.message_ranges for r in m.pieces), tokens.generation_prompt]
    assert [r.begin for r in ranges] == [0, *(r.end for r in ranges[:-1])]
    assert ranges[-1].end == tokens.count == len(tokens.offsets)


def test_after_media_of_unknown_length_positions_are_unknown() -> None:
    rendering = parse(TEMPLATE, conversation(None, "hello", None, "bye"))
    first, second = inserted(rendering, [expansion(0, 5, 2), expansion(1, 5, 2)])
    tokens = token_map(rendering, BACKEND, media=[first])
    known = [m.pieces[0].pos_end is not None for m in tokens.message_ranges]
    assert known == [True, True, False, False]
    assert to_json(tokens)["tokens"]["media"] is None
    # The same with the other one: then already the first message's end is unknown.
    tokens = token_map(rendering, BACKEND, media=[second])
    assert [m.pieces[0].pos_end for m in tokens.message_ranges] == [None] * 4


def test_a_placeholder_that_the_template_writes_elsewhere_keeps_its_tokens() -> None:
    text = "<start_of_image> means an image.{% for p in messages[0].content %}<start_of_image>{% endfor %}"
    template = replace(TEMPLATE, text=text)
    rendering = parse(template, [{"role": "user", "content": [{"type": "image"}]}])
    found = inserted(rendering, [expansion(0, 4, 4)])
    tokens = token_map(rendering, BACKEND, media=found)
    assert tokens.ids[0] == BACKEND.added["<start_of_image>"].id
    assert len(tokens.media) == 1


def test_a_placeholder_inside_a_longer_token_is_refused_by_the_name_of_its_part() -> None:
    # `<|image|>` is a token of the vocabulary; a part of it can be cut out of no list of tokens.
    template = replace(TEMPLATE, text="{% for p in messages[0].content %}<|image|>{% endfor %}")
    rendering = parse(template, [{"role": "user", "content": [{"type": "image"}]}])
    wrong = Insertion(1, 8, 0, 0, 0, expansion(0, 4, 4))
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[0\]: its placeholder is part of"):
        token_map(rendering, BACKEND, media=[wrong])


@settings(deadline=None)
@given(sizes, sizes)
def test_ids_of_media_are_equal_where_all_of_it_is(one: tuple[int, int], other: tuple[int, int]) -> None:
    first, second = media_chunk("a", 0, *one), media_chunk("a", 0, *other)
    assert (first.ids == second.ids) == (one == other)
    assert one == other or first.ids[0] != second.ids[0]
    assert all(-(2**31) <= id < -1 for id in first.ids)
    assert media_chunk("b", 0, *one).ids[0] != first.ids[0] != media_chunk("a", 1, *one).ids[0]


def test_the_block_of_the_contract_names_message_part_and_identity() -> None:
    _, tokens = mapped(conversation("hello", None), [(16, 4)])
    (entry,) = to_json(tokens)["tokens"]["media"]
    contract = {"message": 1, "part": 1, "begin": tokens.media[0].begin, "n_tokens": 16, "n_pos": 4}
    assert entry.items() >= {**contract, "id": "id 0", "exact": True}.items()


def test_estimated_media_make_the_counts_inexact() -> None:
    rendering = parse(TEMPLATE, conversation(None))
    guess = replace(expansion(0, 5, 2), exact=False, rule="a rule")
    block = to_json(token_map(rendering, BACKEND, media=inserted(rendering, [guess])))["tokens"]
    assert not block["exact"]
    assert block["media"][0]["rule"] == "a rule"


@settings(deadline=None)
@given(
    st.lists(st.none() | st.sampled_from(["a b", "<|image_pad|>", "c"]), min_size=1, max_size=5),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_a_map_that_begins_with_an_earlier_one_is_the_same(
    texts: list[str | None], length: int, known_before: bool, known: bool, trust_content: bool
) -> None:
    def map(texts: list[str | None], known: bool, previous: TokenMap | None) -> TokenMap:
        rendering = parse(TEMPLATE, conversation(*texts))
        expansions = [expansion(number, 5, 2) for number in range(texts.count(None))] if known else []
        media = inserted(rendering, expansions)
        return token_map(rendering, BACKEND, trust_content=trust_content, media=media, previous=previous)

    before = map(texts[:length] or ["x"], known_before, None)
    assert map(texts, known, before) == map(texts, known, None)


def test_placeholders_of_an_earlier_map_are_not_taken_for_others() -> None:
    def map(part: str, previous: TokenMap | None) -> TokenMap:
        content = [{"type": "text", "text": "see"}, {"type": part}]
        rendering = parse(TEMPLATE, [{"role": "user", "content": content}, {"role": "assistant", "content": "so"}])
        return token_map(
            rendering, BACKEND, trust_content=True, media=inserted(rendering, [expansion(0, 5, 2)]), previous=previous
        )

    assert map("audio", map("image", None)) == map("audio", None)
