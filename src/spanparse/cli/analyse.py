"""`spanparse analyse`: what a template writes, reads, refuses and does to messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.markup import escape

from spanparse.analysis import Analysis, Effect, Habit, Reasoning, ToolCalls, ToolsBlock, Variable, to_json
from spanparse.analysis import analyse as analyse_template
from spanparse.cli import options
from spanparse.cli.output import console, print_line, printable, write_json
from spanparse.cli.tables import cell, new_table, show_table

_LONGEST = 160
_MOST_SHAPES = 2


def analyse(
    source: options.Source,
    variant: options.Variant = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Show what a template does, reads and refuses.

    Found by trying small conversations on it, so that none is needed.
    """
    from spanparse.cli.prompt import limits_for, load_template
    from spanparse.conversation import parse_settings

    kwargs = parse_settings(settings or ())
    limits = limits_for(source)
    found = analyse_template(load_template(source, variant), kwargs=kwargs, limits=limits)
    if as_json:
        write_json(to_json(found))
    else:
        _show(console(), found)


def _show(screen: Console, found: Analysis) -> None:
    accepted = sum(verdict.refused is None for verdict in found.verdicts)
    doubtful = f"inexact on {len(found.inexact)}" if found.inexact else "exact on all"
    facts = [
        found.source,
        f"family {found.family}",
        f"takes {accepted} of {len(found.verdicts)} conversations",
        *([] if found.accepts_nothing else [f"spans {doubtful}"]),
    ]
    print_line(screen, " · ".join(facts), "bold")
    if found.accepts_nothing is not None:
        print_line(screen, f"Refuses every conversation that was tried: {found.accepts_nothing}")
        return
    for sentence in _assumptions(found):
        print_line(screen, sentence, "italic")
    _show_turns(screen, found)
    _section(screen, "Reasoning", _reasoning(found.reasoning))
    _section(screen, "Tool calls", _tool_calls(found.tool_calls))
    _section(screen, "Tools", map(_tools, found.tools))
    _section(screen, "Around", _around(found))
    _section(screen, "Habits", map(_habit, found.habits))
    _show_variables(screen, found.variables)
    _show_verdicts(screen, found)
    _section(screen, "Inexact", (f"{shape}: {reason}" for shape, reason in found.inexact))


def _assumptions(found: Analysis) -> Iterator[str]:
    stand_ins = [f"{token.name} ({token.text})" for token in found.special_tokens if not token.given]
    if stand_ins:
        yield f"Not given by the source, so that a stand-in was used: {', '.join(stand_ins)}."
    if found.required:
        yield f"Refuses everything without {', '.join(f'{name}={_value(value)}' for name, value in found.required)}."
    if found.content_as == "parts":
        yield "Shows content only as a list of parts, so that is how texts were given."


def _show_turns(screen: Console, found: Analysis) -> None:
    theirs = {"user": found.llama_cpp.user_start, "assistant": found.llama_cpp.assistant_start}
    table = new_table("role", "start", "end", "turn shared with", "llama.cpp finds")
    for role in found.roles:
        starts = [_quoted(role.start), *(f"or {_quoted(text)}" for text in role.other_starts)]
        ends = [_quoted(role.end), *(f"or {_quoted(text)}" for text in role.other_ends)]
        finds = _quoted(theirs[role.role] or None) if role.role in theirs else "does not look"
        cells = [role.role, "\n".join(starts), "\n".join(ends), ", ".join(role.merged_with), finds]
        table.add_row(*(_cell_lines(text) if "\n" in text else cell(text) for text in cells))
    screen.print()
    show_table(screen, table)


def _reasoning(found: Reasoning | None) -> Iterator[str]:
    if found is None:
        yield "not read"
        return
    if found.fields:
        yield f"read from {', '.join(found.fields)}, written between {_quoted(found.start)} and {_quoted(found.end)}"
        yield f"shown {found.kept}" if found.kept in ("always", "never") else f"shown only {found.kept}"
    if found.needs:
        yield f"only with {', '.join(f'{name}={_value(value)}' for name, value in found.needs)}"
    yield f"inside the content: {found.inline}"


def _tool_calls(found: ToolCalls | None) -> Iterator[str]:
    if found is None:
        yield "not shown"
        return
    call = f"{_text(found.start)}NAME{_text(found.separator)}ARGUMENTS{_text(found.end)}"
    yield f"{_text(found.section_start)}{call}{_text(found.section_end)}"
    if found.between is None:
        yield "one at a time"
    elif found.between:
        yield f"{_quoted(found.between)} between two"
    notation = {"json": "JSON", "python": "Python", "own": "a notation of the template's own"}[found.arguments]
    given = "refused" if found.string_arguments is None else found.string_arguments
    yield f"arguments are written in {notation}; given as JSON text they are {given}"


def _tools(block: ToolsBlock) -> str:
    notation = {"json": "JSON", "indented json": "indented JSON", "python": "Python", "own": "own notation"}
    if block.role is None:
        where = "in the preamble"
    else:
        which = "" if block.which == "only" else f"{block.which} "
        where = f"in the {which}{block.role} message, {block.place}"
    apart = "" if block.separate else ", not told apart"
    return f"{block.situation}: {where}, as {notation[block.format]}{apart}"


def _around(found: Analysis) -> Iterator[str]:
    if found.generation_prompt is not None:
        prompt = found.generation_prompt
        prefill = f", {_quoted(prompt.prefill)} of it prefilled" if prompt.prefill else ""
        yield f"generation prompt {_quoted(prompt.text)}{prefill}"
    if found.bos is not None:
        source = "bos_token" if found.bos.from_variable else "the template"
        often = "" if found.bos.written == 1 else f", {found.bos.written} times in three user turns"
        yield f"begins with {_quoted(found.bos.text)} from {source}{often}"
    if found.default_text is not None:
        yield f"without a system message it writes {_quoted(found.default_text)}"
    if found.clock.changes != "never":
        yield f"prints the date or time: the prompt changes {found.clock.changes}, in the {found.clock.where}"
    for medium in found.media:
        if medium.placeholder is not None:
            yield f"{medium.kind} part becomes {_quoted(medium.placeholder)}"
    dropped = [medium.kind for medium in found.media if medium.placeholder is None and medium.refused is None]
    if dropped:
        yield f"drops {', '.join(dropped)} parts"


def _habit(habit: Habit) -> str:
    what = f"{habit.role} messages" if habit.field is None else f"{habit.field} of {habit.role} messages"
    shown = ", ".join(habit.shapes[:_MOST_SHAPES])
    more = len(habit.shapes) - _MOST_SHAPES
    return f"{habit.what} {what} ({shown}{f' and {more} more' if more > 0 else ''})"


def _show_variables(screen: Console, variables: Iterable[Variable]) -> None:
    table = new_table("variable", "value", "compared with leaving it out")
    for variable in variables:
        name = variable.name
        for effect in variable.effects or (None,):
            value, changes = ("", "nothing seen") if effect is None else (_value(effect.value), _effect(effect))
            table.add_row(cell(name), cell(value), _cell_lines(changes))
            name = ""
    if table.row_count:
        show_table(screen, table)


def _effect(effect: Effect) -> str:
    lines = [change.says for change in effect.changes]
    if effect.refused is not None:
        lines.append(f"refuses: {effect.refused}")
    if effect.together_with:
        lines.append(f"together with {', '.join(f'{name}={_value(value)}' for name, value in effect.together_with)}")
    return "\n".join(lines) or "nothing"


def _show_verdicts(screen: Console, found: Analysis) -> None:
    refused: dict[str, list[str]] = {}
    lost: dict[str, list[str]] = {}
    for verdict in found.verdicts:
        if verdict.refused is not None:
            refused.setdefault(verdict.refused, []).append(verdict.shape)
        elif verdict.loses:
            lost.setdefault(", ".join(verdict.loses), []).append(verdict.shape)
    for columns, rows in ((("refuses", "because"), refused), (("takes", "but renders nothing of"), lost)):
        table = new_table(*columns)
        for what, shapes in rows.items():
            table.add_row(cell(", ".join(shapes)), cell(what))
        if rows:
            show_table(screen, table)


def _section(screen: Console, title: str, lines: Iterable[str]) -> None:
    shown = list(lines)
    if shown:
        print_line(screen, title, "bold")
        for line in shown:
            print_line(screen, f"  {line}")


def _quoted(text: str | None) -> str:
    return "–" if text is None else f"“{_text(text)}”"


def _text(text: str) -> str:
    """Foreign text on one line, cut short."""
    shown = text.replace("\n", "⏎")
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell_lines(text: str) -> str:
    """Foreign text of several lines in a table; neither markup nor control characters in it act."""
    return "\n".join(escape(printable(line)) for line in text.split("\n"))
