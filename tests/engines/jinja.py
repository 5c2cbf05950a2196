"""`python -m tests.engines.jinja`: our text and marks on the newest Jinja of the package index, if that is newer.

Our generator builds on Jinja's own, of which no version promises another's insides: spanparse takes 3.1 alone, and this
tells whether it could take the next. The newer Jinja goes into a temporary folder and is seen by a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from tempfile import TemporaryDirectory

from tests.audit import plain
from tests.audit.corpus import bundled, published, sample
from tests.engines.pair import Pair, pairs_of

from spanparse import Request, SpanparseError, TemplateSource, parse_request


def main() -> int:
    """Returns 1 if a text or the marks differ on the newer Jinja; 0 if none does, or there is no newer one."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines.jinja", description=__doc__)
    parser.add_argument("--every", type=int, default=20, help="compare one published template in N")
    parser.add_argument("--here", action="store_true", help="compare on the Jinja that is installed")
    options = parser.parse_args()
    if options.here:
        return _compare(options.every)
    with TemporaryDirectory() as folder:
        if not _install(f"jinja2>{version('jinja2')}", folder):
            sys.stdout.write(f"no Jinja in the package index is newer than {version('jinja2')}\n")
            return 0
        command = [sys.executable, "-m", "tests.engines.jinja", "--here", "--every", str(options.every)]
        path = os.pathsep.join([folder, *filter(None, sys.path)])
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def _install(requirement: str, folder: str) -> bool:
    """Whether the index has what is required; it is in `folder` then."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--pre", "--target", folder, requirement]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution" not in done.stderr:
        raise SystemExit(f"pip: {done.stderr.strip()}")
    return done.returncode == 0


def _compare(every: int) -> int:
    templates = [*sample(published(), every), *bundled()]
    pairs = wrong = 0
    for template in templates:
        for pair in pairs_of(template):
            pairs += 1
            fault = _fault(pair)
            if fault:
                wrong += 1
                sys.stdout.write(f"{template.name}, {pair.shape}: {fault}\n")
    found = f"{pairs} pairs of {len(templates)} templates, {wrong} wrong"
    sys.stdout.write(f"Jinja {version('jinja2')}: {found}\n")
    return 1 if wrong else 0


def _fault(pair: Pair) -> str | None:
    """What is wrong with our rendering of a pair."""
    text = pair.template.text
    messages, tools = pair.conversation.messages, pair.conversation.tools
    request = Request(messages, tools, pair.kwargs, pair.generation, plain.CLOCK)
    expected = rendering = None
    with suppress(plain.Refused):
        expected = plain.render(text, messages, tools, pair.kwargs, pair.generation)
    with suppress(SpanparseError):
        rendering = parse_request(TemplateSource(pair.template.name, text, ""), request)
    if (rendering.text if rendering else None) != expected:
        return "another text than Jinja's"
    if rendering and rendering.reason and rendering.reason.kind == "render-differs":
        return "marks on another text"
    return None


if __name__ == "__main__":
    sys.exit(main())
