"""What an engine has been asked before: the yardstick for how little a request could have cost."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from runtime.prefix import Tokens, as_tokens, common_prefix


class Shared(NamedTuple):
    """How many leading tokens of a prompt appeared in earlier prompts, and how many of those were evaluated.

    The two differ after a request that was cancelled or failed during its prefill.
    """

    prompted: int
    evaluated: int


class _Node:
    """An edge of the tree with the tokens on it; `evaluated` holds for all of them or for none."""

    __slots__ = ("children", "evaluated", "tokens")

    def __init__(self, tokens: Tokens, evaluated: bool, children: dict[int, _Node]) -> None:
        self.tokens = tokens
        self.evaluated = evaluated
        self.children = children

    def split(self, length: int) -> None:
        tail = _Node(self.tokens[length:], self.evaluated, self.children)
        self.tokens = self.tokens[:length]
        self.children = {int(tail.tokens[0]): tail}


@final
class PromptHistory:
    """All earlier prompts as a compressed prefix tree: 4 bytes for each token not shared with an earlier prompt."""

    def __init__(self) -> None:
        self._root = _Node(as_tokens([]), True, {})

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
            if length < child.tokens.size:
                break
            node = child
        return Shared(prompted, evaluated)

    def add(self, prompt: Tokens, evaluated: int) -> None:
        """Remember `prompt`, of which the memory held the first `evaluated` tokens at some time."""
        self._insert(prompt[:evaluated], True)
        self._insert(prompt, False)

    def _insert(self, tokens: Tokens, evaluated: bool) -> None:
        node = self._root
        while tokens.size:
            child = node.children.get(int(tokens[0]))
            if child is None:
                node.children[int(tokens[0])] = _Node(np.array(tokens), evaluated, {})
                return
            length = common_prefix(child.tokens, tokens)
            if length < child.tokens.size:
                child.split(length)
            child.evaluated = child.evaluated or evaluated
            node, tokens = child, tokens[length:]
