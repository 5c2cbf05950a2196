"""`python -m tests.engines`: compare with the other engines and write `docs/engines.md`."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from tests.audit.corpus import Template, bundled, first_by_hash, published, sample
from tests.audit.shapes import LONG, SHAPES
from tests.engines import llama_cpp
from tests.engines.comparison import Comparison
from tests.engines.page import agreement, page
from tests.engines.runner import Peer, run

_LONG_TEMPLATES: Final = 30
_SERVER_EVERY: Final = 10


def main() -> int:
    """Returns 1 if a text differs from transformers' or too many from llama.cpp's, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="compare one published template in N")
    parser.add_argument("--write", type=Path, default=Path("docs/engines.md"), help="write the page to this file")
    options = parser.parse_args()
    templates = [*sample(published(), options.every), *bundled()]
    ours = _compare("transformers", templates)
    engine = _compare("llama.cpp", templates)
    # What the server does to messages depends on the shape alone; a sample shows all of it.
    server = _compare("llama-server", [*sample(published(), options.every * _SERVER_EVERY), *bundled()], long=False)
    versions = {"transformers": version("transformers"), "llama.cpp": llama_cpp.build()}
    own = len(bundled())
    numbers = {"every": options.every, "published": len(templates) - own, "corpus": len(published()), "bundled": own}
    options.write.write_text(page(ours, engine, server, versions, numbers), encoding="utf-8")
    return 1 if agreement(ours) < 1 or agreement(engine) < 0.99 else 0


def _compare(peer: Peer, templates: list[Template], *, long: bool = True) -> list[Comparison]:
    found: list[Comparison] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(peer, total=len(templates))
        for comparisons in run(peer, templates, tuple(SHAPES)):
            found += comparisons
            progress.advance(task)
        if long:
            few = first_by_hash([t for t in templates if not t.bundled], _LONG_TEMPLATES)
            chosen = [*few, *bundled()]
            for comparisons in progress.track(run(peer, chosen, (LONG,)), len(chosen), description=f"{peer}, {LONG}"):
                found += comparisons
    return found


if __name__ == "__main__":
    sys.exit(main())
