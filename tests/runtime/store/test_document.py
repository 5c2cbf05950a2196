"""The page about the store shows what works."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_example_runs():
    page = Path(__file__).resolve().parents[3] / "docs" / "store.md"
    (example,) = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(example, page.name, "exec"), {})
