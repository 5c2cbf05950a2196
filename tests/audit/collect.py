"""`python -m tests.audit.collect ARCHIVES FOLDER`: takes chat templates out of wheels and sdists.

They are for an audit of templates that nobody here has tuned on:

    pip download --no-deps -d build/archives trl axolotl unsloth xinference mlx-vlm sglang
    pip download --no-deps --no-binary :all: -d build/archives llama-cpp-python
    python -m tests.audit.collect build/archives build/elsewhere
    python -m tests.audit --templates build/elsewhere

What is written is other people's work: it is never committed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from tests.audit.corpus import bundled, published
from tests.audit.plain import Refused, render

_READ: Final = (".jinja", ".jinja2", ".j2", ".py", ".json")
_LARGEST: Final = 1 << 23
_QUESTION: Final = "zqwhat"


def main() -> None:
    """Write each template that neither the corpus nor an earlier archive has, named by its archive and its text."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.collect", description=__doc__)
    parser.add_argument("archives", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    seen = {template.text.strip() for template in (*published(), *bundled())}
    for archive in sorted(options.archives.iterdir()):
        found = 0
        for name, data in _files(archive):
            for text in _templates(name, data):
                if text.strip() not in seen and _is_chat_template(text):
                    seen.add(text.strip())
                    found += 1
                    stem = re.sub(r"[^\w.-]", "_", f"{archive.name.split('-')[0]}-{Path(name).stem}")
                    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
                    (options.folder / f"{stem}-{digest}.jinja").write_text(text, encoding="utf-8", newline="")
        console.print(f"{found:4} {archive.name}")


def _files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the content of each file that may hold a template."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if entry.filename.endswith(_READ) and entry.file_size < _LARGEST:
                    yield entry.filename, wheel.read(entry)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as sdist:
            for member in sdist:
                file = sdist.extractfile(member) if member.name.endswith(_READ) and member.size < _LARGEST else None
                if file is not None:
                    yield member.name, file.read()


def _templates(name: str, data: bytes) -> Iterator[str]:
    """The texts in a file that look like a template: the file itself, or strings in JSON and Python."""
    text = data.decode("utf-8", errors="replace")
    try:
        if name.endswith(".json"):
            texts = [*_strings(json.loads(text))]
        elif name.endswith(".py"):
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(text)
            constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            texts = [value for value in constants if isinstance(value, str)]
        else:
            texts = [text]
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from (text for text in texts if "messages" in text and "{%" in text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _is_chat_template(text: str) -> bool:
    """Whether it shows a user's question."""
    for content in (_QUESTION, [{"type": "text", "text": _QUESTION}]):
        try:
            if _QUESTION in render(text, [{"role": "user", "content": content}], None, {"bos_token": "<s>"}, True):
                return True
        except Refused:
            continue
    return False


if __name__ == "__main__":
    main()
