from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import Budget
from planner.expectation.prior import Atom, Prior
from planner.optimum import tree_search
from planner.optimum.selection import Point, select
from planner.optimum.tree import Node, select_tree


def random_tree(pick: random.Random, count: int) -> list[Node]:
    nodes: list[Node] = []
    for i in range(count):
        parent = pick.randint(-1, i - 1)
        above = nodes[parent].offset if parent >= 0 else 0
        nodes.append(
            Node(
                parent,
                above + pick.randint(1, 9),
                float(pick.choice([0, 0, 1, 2, 5])),
                float(pick.choice([0, 0, 1, 8])),
                pick.choice([5, 5, pick.randint(1, 9)]),
                pick.random() < 0.1,
            )
        )
    return nodes


def cost(nodes: list[Node], chosen: tuple[int, ...], rate: float, per_restore: float) -> float:
    total = 0.0
    for i, node in enumerate(nodes):
        at = i
        while at >= 0 and at not in chosen:
            at = nodes[at].parent
        total += node.price * (i in chosen)
        if at >= 0:
            total += node.mass * (per_restore - rate * nodes[at].offset)
    return total


def least(nodes: list[Node], budget: Budget, rate: float, per_restore: float) -> float | None:
    usable = [i for i, node in enumerate(nodes) if per_restore < rate * node.offset]
    costs = [
        cost(nodes, chosen, rate, per_restore)
        for number in range(len(usable) + 1)
        for chosen in combinations(usable, number)
        if (budget.checkpoints is None or number <= budget.checkpoints)
        and (budget.bytes is None or sum(nodes[i].size for i in chosen) <= budget.bytes)
        and all(i in chosen for i in usable if nodes[i].required)
    ]
    return min(costs, default=None)


BUDGETS = st.builds(Budget, st.none() | st.integers(0, 6), st.none() | st.integers(0, 45))


@settings(max_examples=2000)
@given(st.integers(0, 2**32), st.integers(0, 8), BUDGETS, st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.0, 3.0]))
def test_no_set_within_the_budget_is_better(
    seed: int, count: int, budget: Budget, rate: float, per_restore: float
) -> None:
    nodes = random_tree(random.Random(seed), count)
    best = least(nodes, budget, rate, per_restore)
    chosen = select_tree(nodes, budget, rate=rate, per_restore=per_restore)
    if best is None:
        assert chosen is None
        return
    assert chosen is not None
    assert budget.checkpoints is None or len(chosen) <= budget.checkpoints
    assert budget.bytes is None or sum(nodes[i].size for i in chosen) <= budget.bytes
    assert all(rate * nodes[i].offset > per_restore for i in chosen)
    assert cost(nodes, chosen, rate, per_restore) == pytest.approx(best)


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 8))
def test_a_tree_without_branches_is_a_line(seed: int, number: int, count: int) -> None:
    pick = random.Random(seed)
    offsets = sorted(pick.sample(range(1, 100), number))
    prior = Prior(100, [Atom(pick.randrange(100), pick.random()) for _ in range(20)], 0.5)
    below = [prior.below(x)[0] for x in (*offsets, 101)]
    nodes = [Node(i - 1, x, b - a) for i, (x, (a, b)) in enumerate(zip(offsets, pairwise(below), strict=True))]
    chosen = select_tree(nodes, Budget(count))
    line = select([Point(x) for x in offsets], prior, Budget(count))
    assert chosen is not None
    assert line is not None
    assert prior.replay([offsets[i] for i in chosen]) == pytest.approx(prior.replay(line))


def test_one_state_where_branches_part_serves_them_all() -> None:
    # Three leaves just below a fork: one state stands best at the fork, three at the leaves, two are hardly better.
    fork = [Node(-1, 100), Node(0, 101, 1.0), Node(0, 101, 1.0), Node(0, 101, 1.0)]
    assert select_tree(fork, Budget(1)) == (0,)
    two = select_tree(fork, Budget(2))
    assert two is not None
    assert 0 in two
    assert select_tree(fork, Budget(3)) == (1, 2, 3)


def test_a_required_state_that_does_not_fit_leaves_no_set() -> None:
    assert select_tree([Node(-1, 5, required=True)], Budget(0)) is None


def test_where_the_search_is_given_up_the_set_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = random_tree(random.Random(5), 40)
    monkeypatch.setattr(tree_search, "_MOST_LABELS", 5)
    chosen = select_tree([node._replace(required=False) for node in nodes], Budget(6, 25))
    assert chosen is not None
    assert len(chosen) <= 6
    assert sum(nodes[i].size for i in chosen) <= 25
