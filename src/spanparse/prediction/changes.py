"""What became of the fields behind a divergence: still there, moved, rewritten or dropped.

The next prompt is only text, rendered plainly. Its old part keeps the present prompt's order except for what the
template moved, so each field's text is looked for where the one before it ended, a little further on than the present
prompt has it. Only what is not there is looked for everywhere, and of each kind of field only the first few that are
missing, since a template treats all of a kind alike: so the time stays linear in the length of the prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, final

from spanparse.prediction.continuation import Continuation
from spanparse.prediction.divergence import Places, Shown
from spanparse.prediction.outcome import Change, Fate

# What templates add in front of an old field: headers, empty think blocks.
_SLACK: Final = 64
# How far in front of the divergence a field can begin: markers in front of a dropped and of the next field look alike.
_BACK: Final = 128
_FARTHEST: Final = 1 << 16
_SEARCHES_A_KIND: Final = 4

_EVENTS: Final = {
    "assistant_answer": "an answer follows",
    "assistant_answer_with_reasoning": "an answer follows",
    "tool_call": "a tool call follows",
    "user_message": "a new user message follows",
    "regenerate": "the last answer is gone",
    "edit_last_user": "the last user message is another",
}


def changes(places: Places, text: str, following: str, kept: int, continuation: Continuation) -> tuple[Change, ...]:
    """The fields of the present prompt `text` behind `kept` that the prompt `following` does not show in their place.

    What the client itself replaces or removes is left out: only the template's doing counts.
    """
    event = _EVENTS[continuation.name]
    fields = [
        place
        for place in places.fields_from(kept)
        if place.part.kind == "tools" or place.message is None or place.message < continuation.common
    ]
    found = []
    for place, fate in _Search(text, following, kept, _end_of_old(following, continuation)).fates(fields):
        assert place.part.source is not None
        chars = place.part.end - max(place.part.start, kept)
        found.append(Change(place.message, place.part.source, fate, chars, _why(place, fate, event)))
    return tuple(found)


def template_text_change(field: str, message: int | None, chars: int, continuation: Continuation) -> Change:
    """The change that a divergence in the template's own text is."""
    event = _EVENTS[continuation.name]
    if field == "generation_prompt":
        why = "the template opens an answer in the conversation otherwise than one that is asked for"
    else:
        why = f"the template writes it otherwise once {event}"
    return Change(message, field, "rewritten", chars, why)


def kept_bound(places: Places, text: str, continuation: Continuation) -> int:
    """The characters in front of what the client itself replaces or removes: no template can keep more."""
    edits = continuation.name == "edit_last_user"
    found = places.text_start_of(continuation.common) if edits else places.start_of(continuation.common)
    return len(text) if found is None else found


def summarised(found: Iterable[Change]) -> list[tuple[Change, list[int]]]:
    """Changes of one kind as one, with the messages they concern; in the order of their first."""
    groups: dict[tuple[str, Fate, str], tuple[Change, list[int]]] = {}
    for change in found:
        key = (change.field, change.what, change.why)
        first, messages = groups.setdefault(key, (change, []))
        if change.message is not None:
            messages.append(change.message)
        groups[key] = (first, messages)
    return list(groups.values())


@final
class _Chain:
    """Fields of one text found one after another in the other."""

    def __init__(self, text: str, following: str, end: int, cursor: int, limit: int, back: int = 0) -> None:
        self._text = text
        self._following = following
        self._end = end
        self._cursor = cursor
        self._limit = limit
        self._back = back

    def extend(self, start: int, end: int) -> bool:
        """Whether the text from `start` to `end` comes next; if so, what is looked for later comes behind it."""
        field = self._text[start:end]
        gap = min(start - self._end, _FARTHEST)
        begin = max(0, self._cursor - self._back)
        at = self._following.find(field, begin, min(self._cursor + gap + len(field) + _SLACK, self._limit))
        if at < 0:
            return False
        self._end, self._cursor, self._back = end, at + len(field), 0
        return True


@final
class _Search:
    """Follows the fields of one text through another, from the first difference on."""

    def __init__(self, text: str, following: str, kept: int, end_of_old: int) -> None:
        self._text = text
        self._following = following
        self._kept = kept
        self._end_of_old = end_of_old
        self._searches: Counter[tuple[str, str | None]] = Counter()

    def fates(self, fields: Iterable[Shown]) -> list[tuple[Shown, Fate]]:
        """Those of `fields` (in text order) that are not in their place, with what became of them."""
        found: list[tuple[Shown, Fate]] = []
        chain = _Chain(self._text, self._following, self._kept, self._kept, self._end_of_old, _BACK)
        elsewhere: _Chain | None = None
        # What is found elsewhere has moved if later fields are still in their old place; else all of them have been
        # shifted by something that was put in front.
        shifted: list[tuple[Shown, Fate]] = []
        for place in fields:
            start, end = max(place.part.start, self._kept), place.part.end
            field = self._text[start:end]
            if not field.strip():
                continue
            if chain.extend(start, end):
                found += shifted
                shifted = []
            elif elsewhere is not None and elsewhere.extend(start, end):
                shifted.append((place, "moved"))
            else:
                at = self._anywhere(field, place)
                if at is None:
                    found.append((place, "rewritten" if self._is_trimmed(field) else "dropped"))
                else:
                    (shifted if found else found).append((place, "moved"))
                    elsewhere = _Chain(self._text, self._following, end, at + len(field), len(self._following))
        return sorted(found, key=lambda entry: entry[0].part.start)

    def _anywhere(self, field: str, place: Shown) -> int | None:
        kind = (place.part.kind, place.part.source)
        self._searches[kind] += 1
        if self._searches[kind] > _SEARCHES_A_KIND:
            return None
        at = self._following.find(field, self._kept)
        at = self._following.find(field) if at < 0 else at
        return None if at < 0 else at

    def _is_trimmed(self, field: str) -> bool:
        trimmed = field.strip()
        return len(trimmed) < len(field) and self._following.find(trimmed, self._kept) >= 0


def _end_of_old(following: str, continuation: Continuation) -> int:
    """Where in the next prompt the client's new messages begin: old fields behind that have moved."""
    for message in continuation.messages[continuation.common :]:
        content = message.get("content")
        if isinstance(content, list):
            content = next((part["text"] for part in content if isinstance(part, dict) and "text" in part), None)
        at = following.rfind(content) if content else -1
        if at >= 0:
            return at
    return len(following)


def _why(place: Shown, fate: Fate, event: str) -> str:
    if fate == "moved":
        return f"the template puts it elsewhere once {event}"
    if fate == "rewritten":
        return f"the template writes it otherwise once {event}"
    what = "earlier reasoning" if place.part.kind == "reasoning" else "it"
    return f"the template leaves {what} out once {event}"
