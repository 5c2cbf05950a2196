"""Where the tokens of many texts start, by numpy: for a tokeniser so fast that a loop over its tokens would show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, compress, pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PieceTable:
    """The bytes of the tokens below `count`, each read from the vocabulary when it is first met."""

    def __init__(self, read: Callable[[int], bytes], count: int) -> None:
        self._lock = Lock()
        self._read = read
        self._bytes = bytearray()
        self._starts = np.zeros(count, np.int32)
        self._sizes = np.full(count, -1, np.int32)

    def align(
        self,
        ids: bytes | bytearray,
        counts: Sequence[int],
        texts: Sequence[bytes],
        starts: Sequence[int],
        control: Collection[int],
    ) -> list[tuple[list[int], list[int] | None]]:
        """For each text its tokens and the character at which each starts; no starts if they do not spell it.

        The first `counts[0]` of `ids` (32 bits each) are the tokens of `texts[0]` (UTF-8), which begins at character
        `starts[0]`, and so on. As in `Pieces.offsets`, a text may have a dummy space before it, and a token that begins
        inside a code point has the offset of that code point. No starts also for a text with a token in `control`.
        """
        tokens = np.frombuffer(ids, np.int32)
        with self._lock:
            sizes = self._sizes_of(tokens)
            dummies, good = self._fitting(tokens, sizes, counts, texts, control)
            kept = np.repeat(good, counts)
            offsets, spelled = self._offsets(
                tokens[kept],
                sizes[kept],
                list(compress(counts, good)),
                [b" " * dummy + text for text, dummy in compress(zip(texts, dummies.tolist(), strict=True), good)],
                np.asarray(starts)[good],
                dummies[good],
            )
        good[good] = spelled
        aligned = np.zeros(len(tokens), np.int64)
        aligned[kept] = offsets
        flat, flat_offsets = tokens.tolist(), aligned.tolist()
        edges = pairwise(accumulate(counts, initial=0))
        return [
            (flat[begin:end], flat_offsets[begin:end] if fits else None)
            for (begin, end), fits in zip(edges, good.tolist(), strict=True)
        ]

    def _fitting(
        self,
        tokens: NDArray[np.int32],
        sizes: NDArray[np.int32],
        counts: Sequence[int],
        texts: Sequence[bytes],
        control: Collection[int],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The bytes that each text's tokens have too many, and whether they may spell it with a dummy space or none."""
        ends = np.cumsum(counts)
        total = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        among = np.zeros(len(self._sizes), np.bool_)
        among[list(control)] = True
        forbidden = np.concatenate([[0], np.cumsum(among[tokens])])
        begins = ends - counts
        dummies = total[ends] - total[begins] - np.fromiter(map(len, texts), np.int64, len(texts))
        good = ((dummies == 0) | (dummies == 1)) & (forbidden[ends] == forbidden[begins]) & (ends > begins)
        return dummies, good

    def _offsets(
        self,
        tokens: NDArray[np.int32],
        sizes: NDArray[np.int32],
        counts: Sequence[int],
        texts: Sequence[bytes],
        bases: NDArray[np.int64],
        dummies: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The character of each token, and whether the tokens spell each text, dummy space and all."""
        if not texts:
            return np.zeros(0, np.int64), np.zeros(0, np.bool_)
        expected = np.frombuffer(b"".join(texts), np.uint8)
        begins = np.cumsum(sizes, dtype=np.int32) - sizes
        places = np.repeat(self._starts[tokens] - begins, sizes) + np.arange(len(expected), dtype=np.int32)
        differing = np.flatnonzero(np.frombuffer(self._bytes, np.uint8)[places] != expected)
        spelled = np.ones(len(texts), np.bool_)
        first = np.cumsum([0, *counts[:-1]])
        spelled[np.searchsorted(begins[first], differing, side="right") - 1] = False
        # The number of the character that each byte is in, then of the one in which each token begins.
        letters = np.cumsum((expected & 0xC0) != 0x80, dtype=np.int32)[begins] - 1
        moved = np.repeat(bases - letters[first] - dummies, counts)
        return np.maximum(letters + moved, np.repeat(bases, counts)), spelled

    def _sizes_of(self, tokens: NDArray[np.int32]) -> NDArray[Any]:
        sizes = self._sizes[tokens]
        if sizes.size and sizes.min() < 0:
            for id in np.unique(tokens[sizes < 0]).tolist():
                piece = self._read(id)
                self._starts[id] = len(self._bytes)
                self._bytes += piece
                self._sizes[id] = len(piece)
            sizes = self._sizes[tokens]
        return sizes
