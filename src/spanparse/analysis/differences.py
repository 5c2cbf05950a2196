"""What differs between two renderings of one conversation, told by whose text it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spanparse.analysis.affixes import shared_end, shared_start
from spanparse.analysis.findings import Change
from spanparse.spans import MessageSpan, Rendering

_LONGEST_QUOTE: Final = 60
_BESIDE_TOOLS: Final = ("tools", "delimiter", "trailer", "header")


def differences(before: Rendering, after: Rendering) -> tuple[Change, ...]:
    """Every change from `before` to `after`, which are renderings of the same messages and tools."""
    return (*_tools(before, after), *_reasoning(before, after), *_texts(before, after), *_generation(before, after))


def quoted(text: str) -> str:
    """The text on one line, cut short."""
    shown = text.replace("\n", "⏎")
    return f"“{shown if len(shown) <= _LONGEST_QUOTE else shown[: _LONGEST_QUOTE - 1] + '…'}”"


def _generation(before: Rendering, after: Rendering) -> Iterator[Change]:
    old, new = (r.text[slice(*r.generation_prompt)] if r.generation_prompt else "" for r in (before, after))
    if old == new:
        return
    if new.startswith(old):
        says = f"appends {quoted(new[len(old) :])} to the generation prompt"
        yield Change("generation prompt", (), "", new[len(old) :], says)
    elif old.startswith(new):
        says = f"leaves {quoted(old[len(new) :])} off the generation prompt"
        yield Change("generation prompt", (), old[len(new) :], "", says)
    else:
        says = f"makes the generation prompt {quoted(new)} instead of {quoted(old)}"
        yield Change("generation prompt", (), old, new, says)


def _reasoning(before: Rendering, after: Rendering) -> Iterator[Change]:
    """Messages that show their reasoning in only one of the two."""
    roles = [message.role for message in before.messages]
    last_user = max((i for i, role in enumerate(roles) if role == "user"), default=-1)
    shown, hidden = _reasoning_changes(before, after)
    for changed, verb in ((shown, "shows"), (hidden, "drops")):
        if not changed:
            continue
        earlier = all(index < last_user for index in changed)
        later = all(index > last_user for index in changed)
        turns = "earlier turns" if earlier else "the turn that goes on" if later else "all turns"
        texts = ("", "reasoning") if changed is shown else ("reasoning", "")
        yield Change("assistant", tuple(changed), *texts, f"{verb} the reasoning of {turns}")


def _reasoning_changes(before: Rendering, after: Rendering) -> tuple[list[int], list[int]]:
    pairs = list(zip(before.messages, after.messages, strict=True))
    shown = [old.index for old, new in pairs if _reasons(new) and not _reasons(old)]
    hidden = [old.index for old, new in pairs if _reasons(old) and not _reasons(new)]
    return shown, hidden


def _reasons(message: MessageSpan) -> bool:
    return any(part.kind == "reasoning" for part in message.parts)


def _tools(before: Rendering, after: Rendering) -> Iterator[Change]:
    old, new = _home(before), _home(after)
    if old == new:
        return
    if old is None:
        yield Change("tools", (), "", "tools", f"shows the tools, {new}")
    elif new is None:
        yield Change("tools", (), "tools", "", "leaves the tools out")
    else:
        yield Change("tools", (), old, new, f"moves the tools from {old} to {new}")


def _home(rendering: Rendering) -> str | None:
    """Where the tools stand, in words."""
    if any(part.kind == "tools" for part in rendering.preamble.parts):
        return "the preamble"
    for message in rendering.messages:
        if any(part.kind == "tools" for part in message.parts):
            alike = [other.index for other in rendering.messages if other.role == message.role]
            which = "" if len(alike) == 1 else "first " if alike[0] == message.index else "last "
            return f"the {which}{message.role} message"
    return None


def _texts(before: Rendering, after: Rendering) -> Iterator[Change]:
    """Other changes: of the preamble, and of messages, those of one role that change alike together."""
    start, end = before.preamble, after.preamble
    old, new = before.text[start.start : start.end], after.text[end.start : end.end]
    if old != new and _home(before) == _home(after):
        yield _change("preamble", (), "the preamble", old, new)
    settled = {index for changed in _reasoning_changes(before, after) for index in changed}
    alike: dict[tuple[str, str, str], list[int]] = {}
    for one, other in zip(before.messages, after.messages, strict=True):
        old, new = _text(before, one), _text(after, other)
        if one.index in settled or _without_tools(before, one) == _without_tools(after, other):
            continue
        removed, added = _middle(old, new)
        alike.setdefault((one.role, removed, added), []).append(one.index)
    for (role, removed, added), indices in alike.items():
        whose = f"the {role} message" if len(indices) == 1 else f"{len(indices)} {role} messages"
        yield _change(role, tuple(indices), whose, removed, added)


def _change(where: str, messages: tuple[int, ...], whose: str, old: str, new: str) -> Change:
    removed, added = _middle(old, new)
    if not removed:
        says = f"adds {quoted(added)} to {whose}"
    elif not added:
        says = f"leaves {quoted(removed)} out of {whose}"
    else:
        says = f"writes {quoted(added)} instead of {quoted(removed)} in {whose}"
    return Change(where, messages, removed, added, says)


def _middle(old: str, new: str) -> tuple[str, str]:
    """The two texts without what they begin and end with alike, markers and words left whole."""
    head = len(shared_start([old, new]))
    tail = len(shared_end([old[head:], new[head:]]))
    return old[head : len(old) - tail], new[head : len(new) - tail]


def _text(rendering: Rendering, message: MessageSpan) -> str:
    return "".join(rendering.text[piece.start : piece.end] for piece in message.pieces)


def _without_tools(rendering: Rendering, message: MessageSpan) -> str:
    """The message's text without the tool definitions and the template's words beside them."""
    if not any(part.kind == "tools" for part in message.parts):
        return _text(rendering, message)
    return "".join(rendering.text[part.start : part.end] for part in message.parts if part.kind not in _BESIDE_TOOLS)
