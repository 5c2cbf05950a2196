"""`python -m tests.engines`: compare with the other engines and write `docs/engines.md`."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final, get_args

from rich.console import Console
from rich.progress import Progress
from tests.audit.corpus import Template, bundled, first_by_hash, published, sample
from tests.audit.shapes import LONG, SHAPES
from tests.engines import llama_cpp
from tests.engines.comparison import Comparison
from tests.engines.page import agreement, page
from tests.engines.runner import Peer, run

_LONG_TEMPLATES: Final = 30


def main() -> int:
    """Returns 1 if a text differs from transformers' or too many from llama.cpp's, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="compare one published template in N")
    parser.add_argument("--write", type=Path, default=Path("docs/engines.md"), help="write the page to this file")
    options = parser.parse_args()
    templates = [*sample(published(), options.every), *bundled()]
    ours, engine, server = (_compare(peer, templates) for peer in get_args(Peer))
    versions = {"transformers": version("transformers"), "llama.cpp": llama_cpp.build()}
    own = len(bundled())
    numbers = {"every": options.every, "published": len(templates) - own, "corpus": len(published()), "bundled": own}
    options.write.write_text(page(ours, engine, server, versions, numbers), encoding="utf-8")
    return 1 if agreement(ours) < 1 or agreement(engine) < 0.99 else 0


def _compare(peer: Peer, templates: list[Template]) -> list[Comparison]:
    found: list[Comparison] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(peer, total=len(templates))
        for comparisons in run(peer, templates, tuple(SHAPES)):
            found += comparisons
            progress.advance(task)
        chosen = [*first_by_hash(templates, _LONG_TEMPLATES, lambda t: not t.bundled), *bundled()]
        for comparisons in progress.track(run(peer, chosen, (LONG,)), len(chosen), description=f"{peer}, {LONG}"):
            found += comparisons
    return found


if __name__ == "__main__":
    sys.exit(main())
