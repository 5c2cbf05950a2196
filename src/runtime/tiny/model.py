"""Write one tiny model: check what was asked for, then fill the file."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from runtime.tiny.architecture import WIDEST, WIDTH_STEP, Kind, architecture
from spanparse.errors import MissingExtra, SourceError
from spanparse.files import replacing
from spanparse.sources import bundled_template

KINDS: tuple[Kind, ...] = get_args(Kind)


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


def checked_kind(kind: str, width: int, seed: int) -> Kind:
    """`kind` as a `Kind`. Raises `SourceError` when no model can be made of these arguments."""
    if kind not in KINDS:
        raise SourceError(kind, f"no such tiny model ({', '.join(KINDS)})")
    if not 0 < width <= WIDEST or width % WIDTH_STEP:
        raise SourceError(kind, f"width {width} is not a positive multiple of {WIDTH_STEP} up to {WIDEST}")
    if not 0 <= seed < 2**32:
        raise SourceError(kind, f"seed {seed} is not within 0 and 2**32 - 1")
    return kind


def default_template() -> str:
    """The text of the chat template that a tiny model embeds when the caller gives none."""
    return bundled_template("chatml")
