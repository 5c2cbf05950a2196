"""What a template's own text is made of: the control tokens and the words that conversations quote back at it."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from jinja2 import nodes
from tests.audit.plain import ENVIRONMENT

_CONTROL: Final = re.compile(r"<[|｜]?[^<>\s{}]{2,40}[|｜]?>|\[/?[A-Z_]{2,30}\]")
_PHRASE: Final = re.compile(r"[A-Za-z][A-Za-z ,.']{8,60}[A-Za-z]")


@lru_cache(maxsize=8)
def literals(template: str) -> tuple[str, ...]:
    """The texts that the template writes or compares with, in order."""
    tree = ENVIRONMENT.parse(template)
    found = [node.data for node in tree.find_all(nodes.TemplateData)]
    found += [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
    return tuple(found)


def control_tokens(template: str) -> tuple[str, ...]:
    """The control tokens among them, the most frequent first."""
    counts = Counter(token for text in literals(template) for token in _CONTROL.findall(text))
    return tuple(token for token, _ in counts.most_common())


def phrase(template: str) -> str:
    """The longest run of words the template writes; `user` where it writes none."""
    found = [match for text in literals(template) for match in _PHRASE.findall(text)]
    return max(found, key=len, default="user")
