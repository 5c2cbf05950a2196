"""`python -m tests.audit.show TEMPLATE SHAPE [SETTING]`: one pair, with owners, parts and what the oracle says."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.audit.case import Case
from tests.audit.corpus import bundled, elsewhere, published
from tests.audit.kwargs import SPECIAL_TOKENS, settings
from tests.audit.oracle import View, faults_of
from tests.audit.oracle.view import owner_name
from tests.audit.renaming import STYLES, check_renamed
from tests.audit.shapes import conversation
from tests.audit.subject import parse_case, source_of


def main() -> None:
    """Print what there is to see of a pair."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.show", description=__doc__)
    parser.add_argument("template")
    parser.add_argument("shape")
    parser.add_argument("setting", nargs="?", default="")
    parser.add_argument("--templates", type=Path, help="the folder that the template is in")
    parser.add_argument("--no-generation-prompt", action="store_true")
    options = parser.parse_args()
    corpus = elsewhere(options.templates) if options.templates else [*bundled(), *published()]
    template = next(t for t in corpus if t.name == options.template)
    values = settings(template.text)[options.setting]
    case = Case(template.text, conversation(options.shape, template.text), {**SPECIAL_TOKENS, **values})
    generation = not options.no_generation_prompt
    view = View(case, generation, parse_case(source_of(template), case, generation))
    table = Table("owner", "start", "end", "text", show_edge=False)
    for start, end, owner in view.stretches:
        name = owner_name(owner) if owner < 0 else f"{owner} {case.messages[owner]['role']}"
        table.add_row(name, f"{start}", f"{end}", repr(view.text[start:end]))
        for part in view.rendering.messages[owner].parts if owner >= 0 else ():
            if start <= part.start < end:
                table.add_row("", f"{part.start}", f"{part.end}", f"  {part.kind} {part.source or ''}")
    console = Console(markup=False, highlight=False)
    console.print(table)
    for message in view.rendering.messages:
        if message.notes or message.reason:
            console.print(message.index, message.role, [*map(str, message.notes)], str(message.reason))
    renamed = [fault for style in range(len(STYLES)) for fault in check_renamed(view, template, style).faults]
    for fault in [*faults_of(view), *renamed]:
        console.print(fault)


if __name__ == "__main__":
    main()
