"""Write one tiny model or projector: check what was asked for, then fill the file."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from runtime.tiny.architecture import WIDEST, WIDTH_STEP, Kind, architecture
from runtime.tiny.projector import ProjectorKind, projector
from spanparse.errors import MissingExtra, SourceError
from spanparse.files import replacing
from spanparse.sources import bundled_template

KINDS: tuple[Kind, ...] = get_args(Kind)
PROJECTORS: tuple[ProjectorKind, ...] = get_args(ProjectorKind)


def write_model(kind: str, path: str | Path, *, width: int = 128, seed: int = 0, template: str | None = None) -> None:
    """Write a tiny model of `kind` (one of `KINDS`) to `path`; the same arguments give the same bytes.

    The file appears complete or not at all; one that was there stays until then.
    `width` is the embedding length, a multiple of 64 up to 4096: the time to evaluate a token grows with its
    square. `template` is the text of the chat template to embed, the bundled `chatml` when None.

    Raises `SourceError` for an unknown kind, an impossible width or seed, or a path that cannot be written, and
    `MissingExtra` without gguf and numpy.
    """
    known = checked_kind(kind, width, seed)
    text = default_template() if template is None else template
    try:
        from runtime.tiny.file import write_file
    except ModuleNotFoundError as error:
        raise MissingExtra(kind, "runtime", "writing a tiny model") from error
    with replacing(path) as draft:
        write_file(architecture(known, width), draft, width=width, seed=seed, template=text)


def write_projector(kind: str, path: str | Path, *, width: int = 128, seed: int = 0) -> None:
    """Write a tiny projector of `kind` (one of `PROJECTORS`) for tiny models of that `width` to `path`.

    Raises as `write_model`.
    """
    known = checked_projector(kind, width, seed)
    try:
        from runtime.tiny.file import write_projector_file
    except ModuleNotFoundError as error:
        raise MissingExtra(kind, "runtime", "writing a tiny projector") from error
    with replacing(path) as draft:
        write_projector_file(projector(known, width), draft, seed=seed)


def checked_kind(kind: str, width: int, seed: int) -> Kind:
    """`kind` as a `Kind`. Raises `SourceError` when no model can be made of these arguments."""
    if kind not in KINDS:
        raise SourceError(kind, f"no such tiny model ({', '.join(KINDS)})")
    _check_size(kind, width, seed)
    return kind


def checked_projector(kind: str, width: int, seed: int) -> ProjectorKind:
    """`kind` as a `ProjectorKind`. Raises `SourceError` when no projector can be made of these arguments."""
    if kind not in PROJECTORS:
        raise SourceError(kind, f"no such tiny projector ({', '.join(PROJECTORS)})")
    _check_size(kind, width, seed)
    return kind


def _check_size(kind: str, width: int, seed: int) -> None:
    if not 0 < width <= WIDEST or width % WIDTH_STEP:
        raise SourceError(kind, f"width {width} is not a positive multiple of {WIDTH_STEP} up to {WIDEST}")
    if not 0 <= seed < 2**32:
        raise SourceError(kind, f"seed {seed} is not within 0 and 2**32 - 1")


def default_template() -> str:
    """The text of the chat template that a tiny model embeds when the caller gives none."""
    return bundled_template("chatml")
