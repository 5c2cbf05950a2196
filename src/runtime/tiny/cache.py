"""Keep tiny models in the user's cache directory, each written once."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from runtime.tiny import vocabulary
from runtime.tiny.architecture import architecture
from runtime.tiny.model import checked_kind, checked_projector, default_template, write_model, write_projector
from runtime.tiny.projector import projector
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
    known = checked_kind(kind, width, seed)
    words = (vocabulary.entries(), vocabulary.merges())
    path = _path(f"{kind}-{width}-{seed}", (architecture(known, width), words, default_template()))
    if not path.exists():
        _make_directory(path)
        write_model(kind, path, width=width, seed=seed)
    return path


def ensure_projector(kind: str, *, width: int = 128, seed: int = 0) -> Path:
    """The same for the tiny projector of `kind`. Raises what `write_projector` raises."""
    known = checked_projector(kind, width, seed)
    path = _path(f"mmproj-{kind}-{width}-{seed}", (projector(known, width),))
    if not path.exists():
        _make_directory(path)
        write_projector(kind, path, width=width, seed=seed)
    return path


def _path(name: str, made_from: tuple[object, ...]) -> Path:
    digest = sha256(repr((FORMAT_VERSION, *made_from)).encode()).hexdigest()[:12]
    return cache_directory() / f"{name}-{digest}.gguf"


def _make_directory(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(str(path), f"cannot be written ({error.strerror})") from error
