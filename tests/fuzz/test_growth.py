"""Random templates that grow, loop and recurse: none passes the limits of its caller, whatever they are."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from typing import Any, Final
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.invariants import outcome_of, parsed
from tests.fuzz.profile import cases

from spanparse import Limits

CONVERSATION: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "hello there " * 5},
    {"role": "assistant", "content": "a"},
]
COUNT: Final = "{% set ns.n = ns.n + 1 %}"
PARTS: Final = [
    "{{ x }}",
    "{% set x = x ~ x %}",
    "{% set x = x + m.content %}",
    "{% set x = x * # %}",
    "{% set x = '%#d' % 1 %}",
    "{% set x = '{:>#}'.format(x) %}",
    "{% set x = x.center(#) %}",
    "{% set x = x | replace('a', x) %}",
    "{% set x = x | indent(#, true) %}",
    "{% set x = x[:#] %}",
    "{% set x %}@@{% endset %}",
    "{% set ns.s = ns.s ~ x %}",
    "{% set ns.a = ns.a + [x] * # %}",
    "{% set ns.a = [ns.a, ns.a] %}",
    "{% set ns.a = ns.a | map('upper') | list %}",
    "{% set ns.k = ns.k * # + 1 %}",
    "{% set ns.k = 3 ** (# % 99999) %}",
    "{% set y = range(#) | list %}",
    "{% for i in range(#) %}" + COUNT + "@{% endfor %}",
    "{% for m in messages * # %}" + COUNT + "@{% endfor %}",
    "{% for c in x %}" + COUNT + "@{% endfor %}",
    "{% if x | length < # %}{{ show(x) }}{% endif %}",
    "{{ ns.a | tojson | length }}",
    "{{ x in ns.s }}",
]
NUMBERS: Final = ["0", "1", "2", "7", "100", "3000", "99999", "10**7", "10**12"]
HOLE: Final = re.compile("[#@]")
START: Final = "{% set ns = namespace(s='', a=[], n=0, k=1) %}{% set x = 'ab' %}{% set m = messages[0] %}"
END: Final = "<{{ ns.n }}>"


def grown(draw: st.DrawFn, part: str, depth: int) -> str:
    def fill(place: re.Match[str]) -> str:
        if place[0] == "#":
            return draw(st.sampled_from(NUMBERS))
        return grown(draw, draw(st.sampled_from(PARTS)), depth - 1) if depth else "x"

    return HOLE.sub(fill, part)


@st.composite
def templates(draw: st.DrawFn) -> str:
    macro = "{% macro show(x) %}" + grown(draw, "@", 1) + "{% endmacro %}"
    return START + macro + "".join(grown(draw, "@", 3) for _ in range(draw(st.integers(1, 6)))) + END


@cases(300)
@given(
    templates(),
    st.sampled_from([50, 3_000, 200_000]),
    st.sampled_from([10, 700, 20_000]),
    st.sampled_from([200_000, 16 << 20]),
)
def test_a_growing_template_ends_within_its_limits(template: str, characters: int, steps: int, memory: int) -> None:
    limits = Limits(seconds=5.0, characters=characters, steps=steps, memory=memory)
    rendering = outcome_of(template, CONVERSATION, None, {}, True, limits)
    if rendering is not None:
        # The template counts its own steps.
        counted = re.search(r"<(\d+)>$", rendering.text)
        assert counted is not None
        assert int(counted[1]) <= steps


@cases(100)
@given(templates(), st.sampled_from([8 << 20, 16 << 20]))
def test_a_growing_template_takes_no_more_memory_than_it_may(template: str, memory: int) -> None:
    limits = Limits(seconds=5.0, characters=2_000_000, steps=20_000, memory=memory)
    tracemalloc.start()
    try:
        parsed(template, CONVERSATION, None, {}, True, limits)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # What is counted is what values take, by estimate; while one is made out of others it takes more.
    assert peak <= 3 * memory


@cases(150)
@given(templates(), st.integers(0, 12))
def test_a_growing_template_takes_no_more_time_than_it_may(template: str, seconds: int) -> None:
    limits = Limits(seconds=seconds, characters=200_000, memory=16 << 20)
    # Goes on by a second whenever it is looked at.
    clock = itertools.count()
    with mock.patch("spanparse.bounds.limits.time.monotonic", clock.__next__):
        parsed(template, CONVERSATION, None, {}, True, limits)
    # A parse renders some times more, of which each may look once before it ends.
    assert next(clock) <= seconds + 8
