"""What README and docs show is what the commands print.

A `console` block holds commands after `$ ` and what each prints; a line with only `…` stands for lines left out.
Figures with a decimal point are durations or derived from the others: only their place is compared.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from spanparse.cli import main

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
GAP = "…"


class Shown(NamedTuple):
    """A command line and the output that a document shows for it."""

    document: str
    command: str
    output: str


def shown_in(path: Path) -> list[Shown]:
    blocks = re.findall(r"^```console\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    found = []
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Shown(path.name, command, output))
    return found


SHOWN = [shown for path in DOCUMENTS for shown in shown_in(path)]


def normalised(text: str) -> str:
    """Without what may differ from run to run: durations, and the widths of columns that hold them; no blank lines."""
    text = re.sub(r"\d+\.\d+", "#", text)
    lines = (re.sub(r"[ ─]+", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


@pytest.mark.parametrize("shown", SHOWN, ids=[f"{shown.document}: {shown.command}" for shown in SHOWN])
def test_a_document_shows_what_the_command_prints(
    shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *arguments = shlex.split(shown.command)
    assert program == "spanparse"
    if arguments[0] in ("run", "demo", "model"):
        pytest.importorskip("llama_cpp", reason="running a model needs the [runtime] extra")
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("COLUMNS", "80")
    main(arguments)
    printed = capsys.readouterr()
    actual, expected = normalised(printed.out + printed.err), normalised(shown.output)
    if GAP not in expected.splitlines():
        assert actual == expected
    at = 0
    for piece in re.split(rf"^{GAP}$", expected, flags=re.MULTILINE):
        assert piece.strip("\n") in actual[at:]
        at = actual.index(piece.strip("\n"), at) + len(piece.strip("\n"))


def test_the_files_that_the_developers_guide_names_are_there() -> None:
    named = re.findall(r"`((?:tests|src)/[\w/.]+)`", (REPOSITORY / "docs" / "developing.md").read_text("utf-8"))
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_readme_shows_its_own_output() -> None:
    assert any(shown.document == "README.md" for shown in SHOWN)
