"""Model files for the commands that run one: a path, or a tiny model's name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from spanparse.cli.output import progress
from spanparse.cli.prompt import is_tiny
from spanparse.errors import MissingExtra, SourceError

_RUNTIME_MODULES: Final = ("llama_cpp", "numpy", "gguf")


def require_runtime(name: str, why: str) -> None:
    """Raises `MissingExtra` if what the runtime needs is not installed."""
    if not all(importlib.util.find_spec(module) for module in _RUNTIME_MODULES):
        raise MissingExtra(name, "runtime", why)


def find_model(name: str) -> Path:
    """The file of a model; a tiny one is written to the user's cache directory the first time it is asked for."""
    path = Path(name)
    if path.exists():
        return path
    if not is_tiny(name):
        from runtime.tiny import KINDS

        raise SourceError(name, f"no such file, and no tiny model of that name ({', '.join(KINDS)})")
    from runtime.tiny import ensure_model

    with progress() as display:
        display.add_task(f"the {name} model", total=None)
        return ensure_model(name)


def find_projector(name: str) -> Path:
    """The file of a projector; a tiny one is written to the user's cache directory the first time it is asked for."""
    from runtime.tiny import PROJECTORS, ensure_projector

    return ensure_projector(name) if name in PROJECTORS and not Path(name).exists() else Path(name)
