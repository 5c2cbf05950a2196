"""Two thousand hostile templates: none takes more than twice its seconds or three times its memory, none crashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hostile.measure import LIMITS, Taken, template

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is measured as Linux tells it"),
    pytest.mark.xfail(reason="some hundreds were seen to hold, all two thousand not yet", strict=False),
]

ROOT = Path(__file__).resolve().parents[2]
TIMES = int(os.environ.get("SPANPARSE_FUZZ", "1"))
COUNT = 2_000 * TIMES
PROCESSES = 2
# Others with each multiple, and always the same.
SEED = TIMES


@pytest.fixture(scope="module")
def taken() -> list[Taken]:
    share = COUNT // PROCESSES
    running = []
    for first in range(0, COUNT, share):
        command = [sys.executable, "-m", "tests.hostile.measure", str(SEED), str(first), str(first + share)]
        running.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    found = []
    for process in running:
        lines, _ = process.communicate()
        assert process.returncode == 0
        found += [Taken(*json.loads(line)) for line in lines.splitlines()]
    return found


def shown(excessive: list[Taken]) -> str:
    return "\n".join(f"{each}: {template(SEED, each.number)[:2000]}" for each in excessive[:5])


def test_each_is_rendered_twice(taken: list[Taken]) -> None:
    assert len({(each.number, each.render) for each in taken}) == 2 * COUNT
    outcomes = {each.outcome for each in taken}
    assert {"TemplateLimit", "TemplateRefused", "rendered"} <= outcomes


def test_none_crashes(taken: list[Taken]) -> None:
    crashed = [each for each in taken if each.outcome.startswith(("died", "escaped"))]
    assert not crashed, shown(crashed)


def test_none_takes_more_than_twice_its_seconds(taken: list[Taken]) -> None:
    excessive = [each for each in taken if each.seconds > 2 * LIMITS.seconds]
    assert not excessive, shown(excessive)


def test_none_takes_more_than_three_times_its_memory(taken: list[Taken]) -> None:
    excessive = [each for each in taken if each.bytes > 3 * LIMITS.memory]
    assert not excessive, shown(excessive)
