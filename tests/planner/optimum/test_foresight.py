from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.optimum.foresight import Prompts, bounds_in_tree, exact_in_tree
from planner.optimum.offline import Bounds


def tree(texts: Sequence[str], scale: int = 1) -> Prompts:
    """Prompts of letters, each of which stands for `scale` tokens."""

    def common(i: int, j: int) -> int:
        pairs = zip(texts[i], texts[j], strict=False)
        least = min(len(texts[i]), len(texts[j]))
        return scale * next((k for k, (a, b) in enumerate(pairs) if a != b), least)

    def nearest(i: int) -> int | None:
        return max(range(i), key=lambda j: (common(i, j), j), default=None)

    return Prompts([scale * len(text) for text in texts], common, nearest)


@st.composite
def branching(draw: st.DrawFn) -> list[str]:
    texts: list[str] = []
    for _ in range(draw(st.integers(1, 7))):
        base = draw(st.sampled_from(["", *texts]))
        kept = base[: draw(st.integers(0, len(base)))]
        texts.append((kept + draw(st.text("ab", min_size=1, max_size=4)))[:9])
    return texts


@settings(max_examples=1000)
@given(branching(), st.integers(0, 3))
@example(["aa", "a", "b", "aaaa", "b", "a", "baa"], 1)
def test_the_optimum_lies_between_the_bounds(texts: list[str], count: int) -> None:
    prompts = tree(texts)
    lower, upper = bounds_in_tree(prompts, count)
    assert lower <= exact_in_tree(prompts, count) <= upper


@settings(max_examples=300)
@given(branching())
def test_with_room_for_every_demand_nothing_is_evaluated_again(texts: list[str]) -> None:
    prompts = tree(texts)
    assert bounds_in_tree(prompts, len(texts)) == Bounds(0, 0)
    assert exact_in_tree(prompts, len(texts)) == 0


def test_a_conversation_that_is_left_and_gone_back_to_needs_a_state_of_its_own() -> None:
    prompts = tree(["aaaa", "bb", "aaaaa", "bbb"], scale=100)
    assert exact_in_tree(prompts, 0) == 400 + 200
    assert exact_in_tree(prompts, 1) == 200
    assert bounds_in_tree(prompts, 1) == Bounds(200, 200)
    assert bounds_in_tree(prompts, 2) == Bounds(0, 0)


def test_one_state_where_branches_part_may_serve_all_of_them() -> None:
    prompts = tree(["aaaaab", "aaaaac", "aaaaad", "aaaaae"], scale=100)
    assert exact_in_tree(prompts, 1) == 0
    assert bounds_in_tree(prompts, 1) == Bounds(0, 0)


def test_the_tip_serves_a_prompt_that_extends_it() -> None:
    assert tree(["a" * n for n in range(1, 9)]).demands == []
