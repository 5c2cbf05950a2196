"""Words that stand in one message or tool only: wherever they are found, that one must be the owner."""

from __future__ import annotations

from tests.audit.oracle.view import Fault, View, owner_name
from tests.audit.vocabulary import WORD


def check_words(view: View) -> list[Fault]:
    """Every occurrence of a message's word lies in its pieces, and of a tool's word in the part of that tool.

    Names and ids are passed over: a template may show them in the text of a message that refers to them.
    """
    found = []
    for hit in WORD.finditer(view.text):
        word, start = hit[0], hit.start()
        if word in view.tool_words:
            block = next((part for part in view.tools_parts if part.start <= start < part.end), None)
            if block is not None:
                child = next((c for c in block.children if c.start <= start < c.end), None)
                if child is None or child.index not in view.tool_words[word]:
                    tools = sorted(view.tool_words[word])
                    found.append(Fault("tools", None, f"{word} at {start} of tools {tools} lies in {child}"))
                continue
        home = view.homes.get(word)
        owner = view.owners[start]
        if home is not None and owner not in home:
            found.append(Fault("word", min(home), f"{word} at {start} is owned by {owner_name(owner)}"))
        elif home is None and word in view.tool_words and word not in _names(view):
            found.append(Fault("tools", None, f"{word} at {start} lies outside the tools part"))
    return found


def _names(view: View) -> set[str]:
    """The words that are names: a tool's may stand in calls and results."""
    return {
        word for message in view.fields for field in message if field.borrowed for word in WORD.findall(field.value)
    }
