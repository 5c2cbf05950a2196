"""What an engine has been asked before: the yardstick for how little a request could have cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from heapq import heapify, heappop, heappush
from typing import final

import numpy as np

from runtime.prefix import Shared, Tokens, as_tokens, common_prefix

_MOST_TOKENS = 1 << 26
_MOST_PROMPTS = 1 << 16
_SPARE = 4
"""Of what may be remembered one in so many is freed at once: finding what to forget visits all."""


class _Node:
    """An edge of the tree with the tokens on it; all the prompts below it and on it have all of them.

    `evaluated` holds for all of the tokens or for none. `end`: how many tokens lead to its end. `latest`: the number of
    the last prompt that has all of them.
    """

    __slots__ = ("children", "end", "evaluated", "latest", "parent", "tokens")

    def __init__(self, tokens: Tokens, parent: _Node | None, latest: int) -> None:
        self.tokens = tokens
        self.parent = parent
        self.end: int = (parent.end if parent else 0) + tokens.size
        self.evaluated = False
        self.latest = latest
        self.children: dict[int, _Node] = {}

    def split(self, length: int) -> _Node:
        """A node for the first `length` tokens is put above this one, which keeps the others."""
        assert self.parent is not None
        head = _Node(self.tokens[:length].copy(), self.parent, self.latest)
        head.evaluated = self.evaluated
        self.parent.children[int(self.tokens[0])] = head
        self.tokens, self.parent = self.tokens[length:].copy(), head
        head.children = {int(self.tokens[0]): self}
        return head


@final
class PromptHistory:
    """Earlier prompts as a compressed prefix tree: 4 bytes for each token not shared with an earlier prompt.

    Prompts are numbered from 0 in the order in which they were added. `tokens` are remembered now, and about
    `most_tokens` of `most_prompts` are after `forget`.
    """

    def __init__(self, most_tokens: int = _MOST_TOKENS, most_prompts: int = _MOST_PROMPTS) -> None:
        self.most_tokens = most_tokens
        self.most_prompts = most_prompts
        self.tokens = 0
        self.latest = -1
        """The number of the last prompt, -1 before the first."""
        self._root = _Node(as_tokens([]), None, 0)
        self._root.evaluated = True
        self._ends: dict[int, tuple[_Node, int]] = {}

    @property
    def numbers(self) -> frozenset[int]:
        """The prompts that are remembered."""
        return frozenset(self._ends)

    def length(self, number: int) -> int:
        """Tokens of a prompt that is remembered."""
        return self._ends[number][1]

    def common(self, one: int, other: int) -> int:
        """How many leading tokens two prompts share that are remembered."""
        (left, n), (right, m) = self._ends[one], self._ends[other]
        while left is not right:
            if left.end >= right.end:
                assert left.parent is not None
                left = left.parent
            else:
                assert right.parent is not None
                right = right.parent
        return min(n, m, left.end)

    def shared(self, prompt: Tokens) -> Shared:
        """The longest common prefix of `prompt` with any earlier prompt, in tokens."""
        node, prompted, evaluated = self._root, 0, 0
        while prompted < prompt.size:
            child = node.children.get(int(prompt[prompted]))
            if child is None:
                break
            length = common_prefix(child.tokens, prompt[prompted:])
            if child.evaluated and evaluated == prompted:
                evaluated += length
            prompted += length
            node = child
            if length < child.tokens.size:
                break
        return Shared(prompted, evaluated, node.latest if node.latest in self._ends else None)

    def add(self, prompt: Tokens) -> int:
        """Remember `prompt`; its number."""
        self.latest += 1
        self._ends[self.latest] = (self._reach(prompt, self.latest), prompt.size)
        return self.latest

    def forget(self, needed: Collection[int]) -> bool:
        """If too much is remembered, forget what was not met for longest, but for the prompts of these numbers.

        Of a prompt that is forgotten there stays what others begin with. Whether anything was forgotten.
        """
        if self.tokens <= self.most_tokens and len(self._ends) <= self.most_prompts:
            return False
        left = self._leave_oldest(needed)
        needed_ends = {self._ends[number][0] for number in needed}
        ending = Counter(node for node, _ in self._ends.values())
        for node in left:
            self._prune(node, ending)
        queue = [(node.latest, id(node), node) for node in ending if not node.children and node not in needed_ends]
        heapify(queue)
        while queue and self.tokens > self.most_tokens - self.most_tokens // _SPARE:
            node = heappop(queue)[-1]
            del ending[node]
            node = self._prune(node, ending)
            if node.parent is not None and not node.children and node not in needed_ends:
                heappush(queue, (node.latest, id(node), node))
        self._ends = {number: end for number, end in self._ends.items() if ending[end[0]]}
        for number, (end, _) in self._ends.items():
            above: _Node | None = end
            while above is not None:
                above.latest = number
                above = above.parent
        return True

    def _leave_oldest(self, needed: Collection[int]) -> list[_Node]:
        """If there are too many prompts, drop the numbers of the oldest; where those ended."""
        excess = len(self._ends) - self.most_prompts
        if excess <= 0:
            return []
        spared = set(needed)
        oldest = [number for number in self._ends if number not in spared]
        return [self._ends.pop(number)[0] for number in oldest[: excess + self.most_prompts // _SPARE]]

    def _prune(self, node: _Node, ending: Counter[_Node]) -> _Node:
        """Remove a node that no prompt ends at or begins with, and what is left so above it; the first that stays."""
        while node.parent is not None and not node.children and not ending[node]:
            # A node that is gone already is not the child of its parent.
            if node.parent.children.get(int(node.tokens[0])) is node:
                del node.parent.children[int(node.tokens[0])]
                self.tokens -= node.tokens.size
            node = node.parent
        return node

    def mark_evaluated(self, prompt: Tokens) -> None:
        """The memory held all tokens of `prompt`, the beginning of one that was added, at some time."""
        node: _Node | None = self._reach(prompt, None)
        while node is not None and not node.evaluated:
            node.evaluated = True
            node = node.parent

    def _reach(self, tokens: Tokens, number: int | None) -> _Node:
        """The node that ends where `tokens` do; on the way all are marked as a prompt's if it has a `number`."""
        node = self._root
        while True:
            if number is not None:
                node.latest = number
            tokens = tokens[node.tokens.size :]
            if not tokens.size:
                return node
            child = node.children.get(int(tokens[0]))
            if child is None:
                assert number is not None
                child = node.children[int(tokens[0])] = _Node(np.array(tokens), node, number)
                self.tokens += tokens.size
            length = common_prefix(child.tokens, tokens)
            node = child if length == child.tokens.size else child.split(length)
