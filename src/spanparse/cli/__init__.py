"""The command line: a thin layer over the public functions of spanparse, planner and runtime.

The one place in spanparse that may import the other two packages, and only inside the commands that need them, so that
`spanparse inspect` starts fast and works without the runtime.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 fine, 1 findings, 2 could not run.

    `arguments` are those of the process unless given. Errors are one line on standard error.
    """
    try:
        from spanparse.cli.app import app
        from spanparse.cli.guard import run_guarded

        return run_guarded(app, sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # Also while the commands are still being imported.
        sys.stderr.write("spanparse: interrupted\n")
        return 2
