"""In-band sentinels: where taking them out again leaves the text unchanged, they show where each field stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.audit.fields import Field, replaced
from tests.audit.oracle.view import Fault, View, owner_name

# A nonce of letters survives most templates; private-use characters survive those that look for words.
_STYLES: Final = (
    ("xq{}{:04d}x", re.compile(r"xq([ab])(\d{4})x")),
    ("\uf8f0{}{:04d}\uf8f1", re.compile("\uf8f0([ab])(\\d{4})\uf8f1")),
)
# What a field's text is surrounded by when it is written as JSON or as a Python list, with its outer white space.
_QUOTED: Final = re.compile(r"""["']?(?:\\[nrt]|\s)*["']?""")


class _Wrapped(NamedTuple):
    """A field whose text, without outer white space, is `core`."""

    message: int
    field: Field
    core: str


class _Place(NamedTuple):
    """Where a sentinel stood: `offset` characters into the text."""

    opens: bool
    offset: int


def check_sentinels(view: View) -> list[Fault]:
    """Texts of content and reasoning, each wrapped inside its outer white space."""
    found = []
    for wrapped, places in proven_places(view):
        for opens, offset in places:
            owner = view.owners[offset if opens else offset - 1]
            if owner != wrapped.message:
                side = "begins" if opens else "ends"
                detail = f"{wrapped.field.path} {side} at {offset} in {owner_name(owner)}"
                found.append(Fault("sentinel", wrapped.message, detail))
        if [place.opens for place in places] == [True, False]:
            found += _check_range(view, wrapped, places[0].offset, places[1].offset)
    return found


def proven_places(view: View) -> list[tuple[_Wrapped, list[_Place]]]:
    """The fields with the places of their sentinels; those whose sentinels the template drops have none."""
    for form, pattern in _STYLES:
        fields: list[_Wrapped] = []
        wrapped = [replaced(m, _wrapper(i, form, fields)) for i, m in enumerate(view.case.messages)]
        other = view.case.text_of(wrapped, view.generation)
        if other is None or pattern.sub("", other) != view.text:
            continue
        places: list[list[_Place]] = [[] for _ in fields]
        taken = 0
        for hit in pattern.finditer(other):
            places[int(hit[2])].append(_Place(hit[1] == "a", hit.start() - taken))
            taken += len(hit[0])
        return list(zip(fields, places, strict=True))
    return []


def _wrapper(index: int, form: str, fields: list[_Wrapped]) -> Callable[[Field], str]:
    def wrap(field: Field) -> str:
        core = field.value.strip()
        if not core or not field.is_text:
            return field.value
        opening, closing = form.format("a", len(fields)), form.format("b", len(fields))
        fields.append(_Wrapped(index, field, core))
        at = field.value.index(core)
        return f"{field.value[:at]}{opening}{core}{closing}{field.value[at + len(core) :]}"

    return wrap


def _check_range(view: View, wrapped: _Wrapped, start: int, end: int) -> list[Fault]:
    """A field that is shown once, whole and verbatim is one part, or lies in the part of the list it is in."""
    if view.text[start:end] != wrapped.core:
        return []
    path = wrapped.field.path
    reached = start
    for part in view.rendering.messages[wrapped.message].parts:
        if part.end <= reached or part.start > reached:
            continue
        if part.source and part.source != path and path.startswith(part.source) and part.end >= end:
            return []
        if part.source == path:
            outside = (view.text[part.start : start].strip(), view.text[end : part.end].strip())
            if not all(map(_QUOTED.fullmatch, outside)):
                break
        # A template that splits a text at a marker or at line ends writes its own back.
        elif view.text[part.start : part.end].strip() not in ("", "<think>", "</think>"):
            break
        reached = part.end
    if reached >= end:
        return []
    parts = [(p.kind, p.source, p.start, p.end) for p in view.rendering.messages[wrapped.message].parts]
    near = [part for part in parts if part[2] < end and part[3] > start]
    return [Fault("range", wrapped.message, f"{path} stands at [{start}, {end}), where the parts are {near}")]
