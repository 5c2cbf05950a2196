"""The note `dropped`: on a field exactly if no word of it is in the text."""

from __future__ import annotations

from tests.audit.oracle.view import Fault, View
from tests.audit.vocabulary import words_in

from spanparse import Note


def check_notes(view: View) -> list[Fault]:
    """Fields with words that stand nowhere else."""
    shown = set(words_in(view.text))
    counts: dict[str, int] = {}
    for message in view.fields:
        for field in message:
            for word in set(words_in(field.value)):
                counts[word] = counts.get(word, 0) + 1
    found = []
    for index, message in enumerate(view.fields):
        notes = view.rendering.messages[index].notes
        for field in message:
            name = field.path.removesuffix(".text")
            if not field.is_text:
                continue
            own = [word for word in words_in(field.value) if counts[word] == 1 and word not in view.tool_words]
            if not own:
                continue
            dropped = not shown.intersection(own)
            noted = Note("dropped") in notes or Note("dropped", name) in notes
            whole = field.path != name and Note("transformed", "content") in notes
            if dropped != noted and not whole:
                found.append(Fault("notes", index, f"{field.path} is {'not ' * (not dropped)}dropped; notes {notes}"))
    return found
