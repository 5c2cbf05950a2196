"""Keep tiny models in the user's cache directory, each written once."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from runtime.tiny import vocabulary
from runtime.tiny.architecture import Kind, architecture
from runtime.tiny.model import checked_kind, default_template, write_model
from spanparse.errors import SourceError

# Raise it whenever the writer makes other bytes from the same architecture, vocabulary and template.
FORMAT_VERSION = 1


def cache_directory() -> Path:
    """Where models are kept: `$XDG_CACHE_HOME/spanparse`, else `~/.cache/spanparse`. It may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spanparse"


def ensure_model(kind: str, *, width: int = 128, seed: int = 0) -> Path:
    """The path of the tiny model of `kind` with the bundled `chatml` template, written if it is not there yet.

    The name holds kind, width, seed and a digest of all else that the file is made from, so a file of another version
    is never taken for it. The file appears complete or not at all, also when several processes ask at once.

    Raises what `write_model` raises, `SourceError` also when the cache directory cannot be made.
    """
    digest = _digest(checked_kind(kind, width, seed), width)
    path = cache_directory() / f"{kind}-{width}-{seed}-{digest}.gguf"
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(str(path), f"cannot be written ({error.strerror})") from error
    write_model(kind, path, width=width, seed=seed)
    return path


def _digest(kind: Kind, width: int) -> str:
    words = (vocabulary.entries(), vocabulary.merges())
    made_from = (FORMAT_VERSION, architecture(kind, width), words, default_template())
    return sha256(repr(made_from).encode()).hexdigest()[:12]
