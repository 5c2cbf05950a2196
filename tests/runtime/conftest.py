"""Tiny models, one thread each: several wait for each other actively, which is slow where cores are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from runtime.engine import Engine
from runtime.llama import Context, ContextOptions, Model
from runtime.prefix import Tokens
from runtime.tiny import KINDS, ensure_model

OPTIONS = ContextOptions(n_ctx=1024, n_batch=256, n_ubatch=128, n_threads=1, exact=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of memory in turn."""
    return str(request.param)


@pytest.fixture
def context() -> Iterator[Callable[..., Context]]:
    """Makes a context on the tiny model of a kind; all are freed at the end."""
    opened: list[Context] = []

    def make(kind: str, options: ContextOptions = OPTIONS) -> Context:
        opened.append(Context(Model(ensure_model(kind)), options))
        return opened[-1]

    yield make
    for made in opened:
        made.close()
        made.model.close()


@pytest.fixture
def engine() -> Iterator[Callable[..., Engine]]:
    """Makes an engine on the tiny model of a kind, exact and small unless told otherwise; all are closed at the end."""
    opened: list[Engine] = []

    def make(kind: str = "hybrid", **options: Any) -> Engine:
        small = {"n_ctx": 1024, "n_batch": 256, "n_ubatch": 128, "n_threads": 1, "exact": True}
        opened.append(Engine(ensure_model(kind), **{**small, **options}))
        return opened[-1]

    yield make
    for made in opened:
        made.close()


@pytest.fixture
def tokens() -> Callable[[int, int], Tokens]:
    """Makes random ordinary tokens from a seed: ids from 500 on are no control tokens in the tiny vocabulary."""

    def make(seed: int, length: int) -> Tokens:
        return np.random.default_rng(seed).integers(500, 4000, length).astype(np.int32)

    return make
