"""What an engine has been asked before: the yardstick for how little a request could have cost."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from runtime.prefix import Tokens, as_tokens, common_prefix


class Shared(NamedTuple):
    """How many leading tokens of a prompt appeared in earlier prompts, and how many of those were evaluated.

    The two differ while a prompt with them is being evaluated, and after one that was cancelled or failed. `nearest`:
    the number of the latest of the prompts that share most, None for the first prompt.
    """

    prompted: int
    evaluated: int
    nearest: int | None


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
        head = _Node(self.tokens[:length], self.parent, self.latest)
        head.evaluated = self.evaluated
        self.parent.children[int(self.tokens[0])] = head
        self.tokens, self.parent = self.tokens[length:], head
        head.children = {int(self.tokens[0]): self}
        return head


@final
class PromptHistory:
    """All earlier prompts as a compressed prefix tree: 4 bytes for each token not shared with an earlier prompt.

    Prompts are numbered from 0 in the order in which they were added.
    """

    def __init__(self) -> None:
        self._root = _Node(as_tokens([]), None, 0)
        self._root.evaluated = True
        self._ends: list[tuple[_Node, int]] = []

    @property
    def latest(self) -> int:
        """The number of the last prompt, -1 before the first."""
        return len(self._ends) - 1

    def length(self, number: int) -> int:
        """Tokens of a prompt."""
        return self._ends[number][1]

    def common(self, one: int, other: int) -> int:
        """How many leading tokens two prompts share."""
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
        return Shared(prompted, evaluated, node.latest if self._ends else None)

    def add(self, prompt: Tokens) -> int:
        """Remember `prompt`; its number."""
        number = len(self._ends)
        self._ends.append((self._reach(prompt, number), prompt.size))
        return number

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
            length = common_prefix(child.tokens, tokens)
            node = child if length == child.tokens.size else child.split(length)
