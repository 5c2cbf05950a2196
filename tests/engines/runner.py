"""Compares many templates on several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from typing import Final, Literal

from tests.audit.corpus import Template
from tests.audit.shapes import SHAPES
from tests.engines.cause import SERVER_CAUSES, cause_of
from tests.engines.comparison import Comparison, compare
from tests.engines.pair import SERVER_DEFAULTS, Outcome, Pair, pairs_of

Peer = Literal["transformers", "llama.cpp", "llama-server"]
"""`llama-server` is llama.cpp's engine with what the server does to messages beforehand."""

PROCESSES: Final = 2


def run(
    peer: Peer, templates: Sequence[Template], shapes: Sequence[str] = tuple(SHAPES), *, processes: int = PROCESSES
) -> Iterator[list[Comparison]]:
    """The comparisons of each template with a peer, in the order of the templates."""
    # A fresh interpreter for each process: forking one that has threads is an error in Python 3.12 and later.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        jobs = [pool.submit(compare_template, peer, template, tuple(shapes)) for template in templates]
        for job in jobs:
            yield job.result()


def compare_template(peer: Peer, template: Template, shapes: Sequence[str]) -> list[Comparison]:
    """The comparisons of all pairs of a template."""
    render = _renderer(peer)
    pairs = pairs_of(template, shapes)
    if peer == "transformers":
        return [compare(pair, render) for pair in pairs]
    if peer == "llama.cpp":
        return [compare(pair, render, cause_of) for pair in pairs]
    # What a server leaves unsaid is said to both, so that only what they do with it can differ.
    said = (pair._replace(kwargs={**SERVER_DEFAULTS, **pair.kwargs}) for pair in pairs)
    return [compare(pair, render, partial(cause_of, causes=SERVER_CAUSES)) for pair in said]


@lru_cache
def _renderer(peer: Peer) -> Callable[[Pair], Outcome]:
    # Each peer is loaded where it is asked for: one can be compared with while the other's package is missing.
    if peer == "transformers":
        from tests.engines.hugging_face import HuggingFace

        return HuggingFace().render
    from tests.engines.llama_cpp import LlamaCpp

    return LlamaCpp(prepared=peer == "llama-server").render
