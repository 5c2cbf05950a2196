"""Conversations at once for a long time: no error, budget held, memory flat.

    python bench/soak.py [--minutes N] [--kind KIND] [--width N]

Eight threads talk to one engine, each in a conversation of its own that grows, is edited, branches off another's and
begins anew. A fifth of the answers is cancelled, half of those while their prompt is evaluated. All checkpoints
together may take 64 MB, which the engine is asked about between turns. The drift is that of the resident set less the
checkpoints, which may fill their budget: the median of the last third of the time against that of the third before;
the first is for warming up. Exit code 1 if anything failed, the budget was exceeded or the drift is 2 % or more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from runtime import Engine, RunError, Session
from runtime.tiny import KINDS, ensure_model
from spanparse import SpanparseError

CONVERSATIONS = 8
CANCELLED = 0.2
BUDGET = 64_000_000
MOST_DRIFT = 0.02
SAMPLE_SECONDS = 0.25
SYSTEM = {"role": "system", "content": "You are a ferry clerk. " + "You know every boat, harbour and timetable. " * 12}
WORDS = ["when does", "the last boat", "leave", "for", "island seven", "on sunday", "and who", "takes", "a dog"]


@dataclass
class Soak:
    """What the threads share."""

    engine: Engine
    ends_at: float
    finished: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    evaluated: int = 0
    reused: int = 0
    generated: int = 0
    sessions: list[Session] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def talk(self, number: int) -> None:
        """One conversation, until the time is up."""
        pick = random.Random(number)
        session = self.sessions[number]
        while time.monotonic() < self.ends_at:
            if len(session.messages) > pick.randint(6, 30):
                session.messages = (SYSTEM,)
            elif pick.random() < 0.1:
                session.messages = pick.choice(self.sessions).messages
            elif pick.random() < 0.1 and len(session.messages) > 3:
                session.undo()
            session.max_tokens = pick.randint(1, 60)
            try:
                self._turn(session, " ".join(pick.choices(WORDS, k=pick.randint(3, 150))), pick)
            except (RunError, SpanparseError) as error:
                with self.lock:
                    self.errors.append(f"{type(error).__name__}: {error}")

    def _turn(self, session: Session, text: str, pick: random.Random) -> None:
        stream = session.stream({"role": "user", "content": text})
        if pick.random() < CANCELLED:
            for _ in range(pick.choice([0, pick.randint(1, session.max_tokens)])):
                next(stream, None)
            stream.cancel()
        for _ in stream:
            pass
        completion = stream.completion
        with self.lock:
            self.finished[completion.finish] += 1
            self.evaluated += completion.report.evaluated
            self.reused += completion.report.reused
            self.generated += len(completion.output_ids)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soaked(kind: str, width: int, minutes: float) -> dict[str, Any]:
    """Play and measure."""
    begin = time.monotonic()
    samples, most = [], 0
    with Engine(
        ensure_model(kind, width=width), checkpoint_bytes=BUDGET, n_ctx=16384, n_threads=1, parallel=CONVERSATIONS
    ) as engine:
        soak = Soak(engine, begin + 60 * minutes)
        soak.sessions += [Session(engine, (SYSTEM,)) for _ in range(CONVERSATIONS)]
        threads = [threading.Thread(target=soak.talk, args=(number,)) for number in range(CONVERSATIONS)]
        for thread in threads:
            thread.start()
        shown = begin
        while any(thread.is_alive() for thread in threads):
            time.sleep(SAMPLE_SECONDS)
            stored = engine.scheduler.run(lambda: engine.tree.store.bytes)
            samples.append(resident_bytes() - stored)
            most = max(most, stored)
            if time.monotonic() - shown >= 10:
                shown = time.monotonic()
                sys.stderr.write(
                    f"{shown - begin:5.0f} s  {sum(soak.finished.values())} answers  {len(soak.errors)} errors  "
                    f"{stored / 1e6:.1f} MB of states  {samples[-1] / 1e6:.1f} MB resident besides\n"
                )
        engine.check_integrity()
    third = len(samples) // 3
    before, after = (statistics.median(part) for part in (samples[third : 2 * third], samples[2 * third :]))
    return {
        "kind": kind,
        "width": width,
        "minutes": minutes,
        "finished": dict(soak.finished),
        "errors": soak.errors,
        "evaluated": soak.evaluated,
        "reused": soak.reused,
        "generated": soak.generated,
        "most_checkpoint_bytes": most,
        "budget": BUDGET,
        "resident_bytes_besides": [before, after],
        "drift": after / before - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kind", choices=KINDS, default="hybrid")
    parser.add_argument("--width", type=int, default=128, help="of the model: states grow with it")
    arguments = parser.parse_args()
    result = soaked(arguments.kind, arguments.width, arguments.minutes)
    json.dump({"schema_version": 1, **result}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    if result["errors"] or result["most_checkpoint_bytes"] > BUDGET or abs(result["drift"]) >= MOST_DRIFT:
        sys.exit(1)


if __name__ == "__main__":
    main()
