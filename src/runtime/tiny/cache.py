"""Keep tiny models in the user's cache directory, each written once."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from runtime.tiny import vocabulary
from runtime.tiny.model import check, default_template, write_model

# Raise it whenever the same arguments begin to give other bytes.
FORMAT_VERSION = 1


def cache_directory() -> Path:
    """Where models are kept: `$XDG_CACHE_HOME/spanparse`, else `~/.cache/spanparse`. It may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spanparse"


def ensure_model(kind: str, *, width: int = 128, seed: int = 0) -> Path:
    """The path of the tiny model of `kind` with the bundled `chatml` template, written if it is not there yet.

    The name holds kind, width, seed and a digest of all else that the file is made from, so a file of another version is
    never taken for it. The file appears complete or not at all, also when several processes ask at once.

    Raises what `write_model` raises.
    """
    check(kind, width, seed)
    path = cache_directory() / f"{kind}-{width}-{seed}-{_digest()}.gguf"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".tmp", dir=path.parent)
    os.close(handle)
    try:
        write_model(kind, draft, width=width, seed=seed)
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)
    return path


def _digest() -> str:
    made_from = [str(FORMAT_VERSION), *(f"{e.type} {e.text}" for e in vocabulary.entries()), default_template()]
    return sha256("\0".join(made_from).encode()).hexdigest()[:12]
