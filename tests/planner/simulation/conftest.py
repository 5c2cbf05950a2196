"""Block traces in small, and the public one where it is at hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

# Beside the repository, where other reference data lie.
TRACE = Path(__file__).resolve().parents[4] / "shared" / "traces" / "claude-code-sessions.jsonl.gz"
COLUMNS = ["t", "in", "out", "blocks", "best_prev", "lcp_best", "depth"]


@pytest.fixture(scope="session")
def trace() -> Path:
    """The 710 sessions."""
    if not TRACE.exists():
        pytest.skip(f"{TRACE.name} is not here")
    return TRACE


@pytest.fixture
def session_line() -> Any:
    """A function that writes a session of rows (tokens, best earlier request, blocks shared with it, depth)."""

    def write(rows: Sequence[tuple[int, int, int, int]], **changes: Any) -> str:
        requests = [[0.0, n, 10, n // 64, best, shared, depth] for n, best, shared, depth in rows]
        fields = {"id": "s", "bs": 64, "tool_tokens": 640, "system_tokens": 320, "cols": COLUMNS, "reqs": requests}
        return json.dumps({**fields, **changes})

    return write
