"""Where sampled tokens and those of the rendered history part, and how to keep the sampled ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.tiny import vocabulary
from spanparse import Rendering, load_source, parse
from spanparse.media import find_placeholders
from spanparse.tokens import HuggingFaceTokenizer, TokenMap, find_drift, keep_sampled, token_map
from spanparse.tokens.media import Expansion, Insertion, media_chunk, text_chunk

Small = dict[str, HuggingFaceTokenizer]
Chat = Callable[..., Rendering]

TINY = HuggingFaceTokenizer(vocabulary.hf_tokenizer())
TEMPLATE = load_source("gemma3")
ASK = {"role": "user", "content": "What is a barrier?"}
AGAIN = {"role": "user", "content": "And then?"}

answers = st.text("abcdefgh then the and ., é日🎉\n", min_size=1, max_size=40).map(str.strip).filter(bool)


def mapped(*messages: dict[str, Any]) -> tuple[Rendering, TokenMap]:
    rendering = parse(TEMPLATE, list(messages))
    return rendering, token_map(rendering, TINY)


def otherwise(text: str, cuts: list[int]) -> list[int]:
    """Other tokens that spell the same: bytes up to the first cut, then each stretch by itself."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    ids: list[int] = []
    for number, (begin, end) in enumerate(pairwise(places)):
        ids += text[begin:end].encode() if number % 2 == 0 else TINY.encode(text[begin:end], special=False)
    return ids


def spelled(ids: list[int]) -> bytes:
    return TINY.pieces.spell(ids)


@settings(deadline=None)
@given(answers, st.lists(st.integers(0, 100), max_size=5))
def test_the_first_differing_token_is_named_on_both_sides(text: str, cuts: list[int]) -> None:
    _, asked = mapped(ASK)
    evaluated = [*asked.ids, *otherwise(text, cuts)]
    rendering, tokens = mapped(ASK, {"role": "assistant", "content": text}, AGAIN)
    found = find_drift(evaluated, rendering, tokens, TINY)
    if found is None:
        assert tokens.ids[: len(evaluated)] == evaluated
        return
    assert evaluated[: found.token] == tokens.ids[: found.token]
    assert found.rendered is not None
    assert (found.evaluated.id, found.rendered.id) == (evaluated[found.token], tokens.ids[found.token])
    assert found.evaluated.id != found.rendered.id
    assert (found.where, found.same_text) == ("messages[1].content", True)
    assert found.length is not None
    piece = TINY.pieces[found.rendered.id]
    assert piece == found.rendered.piece


@settings(deadline=None)
@given(answers, st.lists(st.integers(0, 100), max_size=5))
def test_kept_tokens_continue_what_was_evaluated_and_spell_the_rendering(text: str, cuts: list[int]) -> None:
    _, asked = mapped(ASK)
    evaluated = [*asked.ids, *otherwise(text, cuts)]
    rendering, tokens = mapped(ASK, {"role": "assistant", "content": text}, AGAIN)
    kept = keep_sampled(evaluated, rendering, tokens, TINY)
    assert kept.ids[: len(evaluated)] == evaluated
    assert spelled(kept.ids) == rendering.text.encode()
    assert kept.offsets == TINY.pieces.offsets(kept.ids, rendering.text)
    assert find_drift(evaluated, rendering, kept, TINY) is None
    # Borders of messages are where they were in the text, and places to cut are still safe and outside kept tokens.
    assert kept.generation_prompt is not None
    ranges = [kept.preamble, *(r for m in kept.message_ranges for r in m.pieces), kept.generation_prompt]
    assert [r.begin for r in ranges] == [0, *(r.end for r in ranges[:-1])]
    for before, after in zip(tokens.barriers, kept.barriers, strict=True):
        assert spelled(kept.ids[: after.token]) == spelled(tokens.ids[: before.token])
        assert (after.backed_off, after.position) == (before.backed_off, after.token)


@settings(deadline=None)
@given(answers, st.lists(st.integers(0, 100), max_size=5), st.integers(0, 60))
def test_an_answer_that_was_cut_short_is_kept_as_far_as_it_goes(text: str, cuts: list[int], length: int) -> None:
    _, asked = mapped(ASK)
    evaluated = [*asked.ids, *otherwise(text, cuts)[:length]]
    rendering, tokens = mapped(ASK, {"role": "assistant", "content": text}, AGAIN)
    kept = keep_sampled(evaluated, rendering, tokens, TINY)
    assert spelled(kept.ids) == rendering.text.encode()
    drift = find_drift(evaluated, rendering, kept, TINY)
    # What is left is the last evaluated tokens, inside one of the rendering.
    assert drift is None or (drift.same_text and drift.length is None)


@settings(deadline=None)
@given(answers, answers)
def test_another_text_is_no_other_spelling(text: str, other: str) -> None:
    _, asked = mapped(ASK)
    rendering, tokens = mapped(ASK, {"role": "assistant", "content": f"{other}!"}, AGAIN)
    evaluated = [*asked.ids, *TINY.encode(f"{text}?", special=False), TINY.added["<end_of_turn>"].id]
    drift = find_drift(evaluated, rendering, tokens, TINY)
    assert drift is not None
    kept = keep_sampled(evaluated, rendering, tokens, TINY)
    assert spelled(kept.ids) == rendering.text.encode()
    last = find_drift(evaluated, rendering, kept, TINY)
    assert last is not None
    assert not last.same_text


def test_a_prompt_that_continues_what_was_evaluated_has_no_drift() -> None:
    rendering, tokens = mapped(ASK)
    assert find_drift(tokens.ids, rendering, tokens, TINY) is None
    assert find_drift(tokens.ids[:7], rendering, tokens, TINY) is None
    assert keep_sampled(tokens.ids, rendering, tokens, TINY) is tokens


def test_a_prompt_that_ends_early_says_so() -> None:
    rendering, tokens = mapped(ASK)
    drift = find_drift([*tokens.ids, 65], rendering, tokens, TINY)
    assert drift is not None
    assert (drift.token, drift.rendered, drift.where) == (tokens.count, None, None)
    assert "the prompt ends there" in str(drift)


def test_a_drift_in_words_names_message_tokens_and_what_happened() -> None:
    _, asked = mapped(ASK)
    rendering, tokens = mapped(ASK, {"role": "assistant", "content": "the end"}, AGAIN)
    drift = find_drift([*asked.ids, *b"the end"], rendering, tokens, TINY)
    assert str(drift) == (
        f"token {asked.count + 1}, messages[1].content: evaluated 104 'h', "
        f"rendered {tokens.ids[asked.count + 1]} 'he': the same text in other tokens"
    )


@pytest.mark.parametrize("sampled", ["<end_of_turn>", "<start_of_turn>", "<|im_end|>"])
def test_an_added_token_that_the_model_sampled_is_not_put_into_text(sampled: str) -> None:
    _, asked = mapped(ASK)
    evaluated = [*asked.ids, *b"so", TINY.added[sampled].id, *b"on"]
    rendering, tokens = mapped(ASK, {"role": "assistant", "content": f"so{sampled}on"}, AGAIN)
    kept = keep_sampled(evaluated, rendering, tokens, TINY)
    added = set(TINY.added.by_id)
    assert [id for id in kept.ids if id in added] == [id for id in tokens.ids if id in added]
    drift = find_drift(evaluated, rendering, kept, TINY)
    assert drift is not None
    assert drift.evaluated.piece == sampled.encode()


def test_media_keep_their_place_and_positions() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}]

    def with_media(*more: dict[str, Any]) -> tuple[Rendering, TokenMap]:
        rendering = parse(TEMPLATE, [*messages, *more])
        chunks = (text_chunk([1]), media_chunk("id", 0, 9, 3))
        media = [
            Insertion(found.start, found.end, *found.place, found.index, Expansion("id", chunks, exact=True))
            for found in find_placeholders(rendering)
        ]
        return rendering, token_map(rendering, TINY, media=media)

    _, asked = with_media()
    evaluated = [*asked.ids, *b"A black bird."]
    rendering, tokens = with_media({"role": "assistant", "content": "A black bird."}, messages[0])
    kept = keep_sampled(evaluated, rendering, tokens, TINY)
    assert kept.ids[: len(evaluated)] == evaluated
    grown = len(kept.ids) - len(tokens.ids)
    assert grown > 0
    assert [run.begin for run in kept.media] == [tokens.media[0].begin, tokens.media[1].begin + grown]
    assert [run.position for run in kept.media] == [tokens.media[0].position, tokens.media[1].position + grown]
    assert kept.generation_prompt is not None
    assert kept.generation_prompt.pos_end == len(kept.ids) - 2 * (9 - 3)


def test_other_media_are_another_text() -> None:
    rendering, tokens = mapped(ASK)
    at = tokens.message_ranges[0].pieces[0].begin + 3
    one, other = (media_chunk(id, 0, 4, 4).ids for id in "ab")
    evaluated = [*tokens.ids[:at], *one]
    drift = find_drift(evaluated, rendering, replace(tokens, ids=[*tokens.ids[:at], *other]), TINY)
    assert drift is not None
    assert (drift.token, drift.same_text, drift.length) == (at, False, None)
    assert "evaluated media" in str(drift)
    assert keep_sampled(evaluated, rendering, tokens, TINY) is tokens


@settings(deadline=None)
@given(st.text("ab é日\n", min_size=1, max_size=12), st.integers(0, 12))
def test_sentencepiece_and_byte_level_vocabularies_keep_sampled_tokens_too(
    small: Small, chat: Chat, text: str, cut: int
) -> None:
    for backend in small.values():
        rendering = chat(["hello", text, "bye"])
        tokens = token_map(rendering, backend)
        piece = tokens.message_ranges[1].pieces[0]
        begin = next(n for n in range(piece.begin + 1, piece.end + 1) if n == len(tokens.ids) or tokens.offsets[n] > 0)
        evaluated = tokens.ids[:begin]
        for one in (text[:cut], text[cut:]):
            evaluated = [*evaluated, *(backend.encode(one, special=False, prefix=False) if one else [])]
        kept = keep_sampled(evaluated, rendering, tokens, backend)
        assert backend.pieces.spell(kept.ids) == backend.pieces.spell(tokens.ids)
        assert kept.offsets[0] == tokens.offsets[0]
        assert kept.offsets == sorted(kept.offsets)
