"""The pages about the runtime and its store show what works."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = [
    pytest.param(code, id=f"{page} {number}")
    for page in ("runtime.md", "store.md")
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL), 1
    )
]


@pytest.fixture
def logger():
    """The runtime's logger, afterwards as it was."""
    logger = logging.getLogger("runtime")
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, logger):
    exec(compile(code, "example", "exec"), {})


def test_there_are_examples():
    assert len(EXAMPLES) >= 6
