"""Judges many templates on several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.audit.corpus import Template
from tests.audit.shapes import SHAPES
from tests.audit.verdict import Verdict, judge_template


def run(
    templates: Sequence[Template], shapes: Sequence[str] = tuple(SHAPES), *, processes: int = 2
) -> Iterator[list[Verdict]]:
    """The verdicts on each template, in the order in which they are ready."""
    # A fresh interpreter for each process: forking one that has threads is an error in Python 3.12 and later.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        jobs = [pool.submit(judge_template, template, shapes) for template in templates]
        for job in as_completed(jobs):
            yield job.result()
