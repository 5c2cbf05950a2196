"""Judges many templates on several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.audit.corpus import Template
from tests.audit.shapes import HELD_OUT_SHAPES, SHAPES
from tests.audit.verdict import Verdict, judge_template


def shapes_of(template: Template) -> tuple[str, ...]:
    """The shapes that a template meets: those of the held-out part are for held-out templates alone."""
    return (*SHAPES, *HELD_OUT_SHAPES) if template.held_out else tuple(SHAPES)


def run(
    templates: Sequence[Template], shapes: Sequence[str] | None = None, *, processes: int = 2
) -> Iterator[list[Verdict]]:
    """The verdicts on each template with `shapes`, by default its own, in the order in which they are ready."""
    # A fresh interpreter for each process: forking one that has threads is an error in Python 3.12 and later.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        jobs = [pool.submit(judge_template, template, shapes or shapes_of(template)) for template in templates]
        for job in as_completed(jobs):
            yield job.result()
