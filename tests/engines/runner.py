"""Compares many templates on several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final, Literal

from tests.audit.corpus import Template
from tests.audit.shapes import SHAPES
from tests.engines.cause import cause_of
from tests.engines.comparison import Comparison, compare
from tests.engines.pair import NOT_SERVED, SERVER_DEFAULTS, Refused, pairs_of

Peer = Literal["transformers", "llama.cpp", "llama-server"]
"""`llama.cpp` is its engine, `llama-server` that with what the server does to a request beforehand."""

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
    pairs = pairs_of(template, shapes)
    # Each peer is loaded where it is asked for: one can be compared with while the other's package is missing.
    if peer == "transformers":
        from tests.engines.hugging_face import HuggingFace

        render = HuggingFace().render
        return [compare(pair, render) for pair in pairs]
    from tests.engines.llama_cpp import LlamaServer, NotServed

    as_sent = peer == "llama-server"
    # What a server leaves unsaid is said to both, so that only what they do with it can differ.
    said = [pair._replace(kwargs={**SERVER_DEFAULTS, **pair.kwargs}) for pair in pairs]
    if as_sent:
        # What the server does to messages does not depend on the kwargs.
        said = [pair for pair in said if not pair.setting]
    try:
        render = LlamaServer(template.text, as_sent=as_sent).render
    except NotServed:
        return [compare(pair, lambda _: Refused(NOT_SERVED)) for pair in said]
    return [compare(pair, render, partial(cause_of, as_sent=as_sent)) for pair in said]
