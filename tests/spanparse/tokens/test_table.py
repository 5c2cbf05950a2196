from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.tokens import LlamaVocabulary, Pieces

pytest.importorskip("numpy", reason="tables of pieces need the [runtime] extra")
table = pytest.importorskip("spanparse.tokens.table")

PIECES = [b"a", b"b", b" ", b"ab", b" a", "é".encode(), "é".encode()[:1], "é".encode()[1:], "日".encode(), b"X"]
CONTROL = frozenset({9})
IDS = st.lists(st.integers(0, len(PIECES) - 1), max_size=8)


def text_of(ids: list[int], change: str) -> str:
    text = b"".join(PIECES[id] for id in ids).decode(errors="replace")
    return {"as it is": text, "dummy": text.removeprefix(" "), "longer": text + "a", "other": text.replace("a", "b")}[
        change
    ]


@given(st.lists(st.tuples(IDS, st.sampled_from(["as it is", "dummy", "longer", "other"])), min_size=1, max_size=6))
def test_many_texts_are_aligned_as_one_is(parts: list[tuple[list[int], str]]) -> None:
    pieces = Pieces(PIECES.__getitem__)
    texts = [text_of(ids, change) for ids, change in parts]
    starts = [100 * number for number in range(len(parts))]
    aligned = table.PieceTable(PIECES.__getitem__, len(PIECES)).align(
        array("i", [id for ids, _ in parts for id in ids]).tobytes(),
        [len(ids) for ids, _ in parts],
        [text.encode() for text in texts],
        starts,
        CONTROL,
    )
    for (ids, _), text, start, found in zip(parts, texts, starts, aligned, strict=True):
        offsets = None if not ids or CONTROL.intersection(ids) else pieces.offsets(ids, text, start)
        assert found == (ids, offsets)


@pytest.mark.parametrize("vocabulary", ["tiny.gguf", "qwen35.gguf", "phi-3.gguf"])
@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4))
def test_texts_encoded_together_have_the_ids_and_offsets_they_have_alone(
    load: Callable[[str], LlamaVocabulary], vocabulary: str, texts: list[str]
) -> None:
    backend = load(vocabulary)
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    for text, found in zip(texts, backend.encode_all(texts, [5] * len(texts), frozenset()), strict=True):
        ids = backend.encode(text, special=False)
        # A literal `▁` is a space to some vocabularies; that is left to `Pieces`.
        assert found in ((ids, backend.pieces.offsets(ids, text, 5)), (ids, None) if "▁" in text else ())
