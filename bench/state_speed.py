"""What it costs to save and restore full states, beside a plain copy of as many bytes.

usage: python bench/state_speed.py [--rounds N] [--disk FOLDER] [--redis URL] [--json]

States of 0.5 to 64 MB of tiny models, all real: attention with 16-bit keys and values, a hybrid and a recurrent one.
Figures are MB/s, the medians of all rounds; each round does everything once, so that a busy machine slows all alike.
`copy` is numpy's from one array that was used before to another; `save` and `restore` are llama.cpp's, to and from a
buffer that is used again; `new` is saving into memory that was never used. These four in CPU seconds. `write` and
`read` are the disk tier's in elapsed seconds, checksums and the wait until the disk has it included; so are `put` and
`get`, to and from Redis. `identify` is how long it takes to read a model's identity, file in the page cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from runtime.llama import Context, ContextOptions, Model, State, Stretch
from runtime.store import DiskTier, Identity, Name, Tier, identify
from runtime.store.record import Record
from runtime.tiny import ensure_model

# Kind, width and tokens: what makes states of about 0.5, 1, 4, 16 and 64 MB.
STATES = (
    ("dense", 512, 122),
    ("recurrent", 1024, 200),
    ("hybrid", 512, 700),
    ("dense", 512, 970),
    ("dense", 512, 3880),
    ("dense", 512, 15500),
)
TIER_BYTES = 1 << 30


def evaluated(kind: str, width: int, n_tokens: int, stack: ExitStack) -> Context:
    """A context that holds that many tokens."""
    model = stack.enter_context(Model(ensure_model(kind, width=width)))
    context = stack.enter_context(Context(model, ContextOptions(n_ctx=max(256, n_tokens), n_threads=1)))
    ids = np.random.default_rng(0).integers(500, 4000, n_tokens).astype(np.int32)
    for begin in range(0, n_tokens, context.n_batch):
        context.decode(Stretch(ids[begin : begin + context.n_batch], begin))
    context.synchronize()
    return context


def restored(context: Context, state: State) -> None:
    if not context.load_state(state, partial=False):
        raise RuntimeError("llama.cpp refuses its own state")


def put(tier: Tier, record: Record, identity: Identity) -> Callable[[], object]:
    return lambda: tier.put(record, identity)


def load(tier: Tier, record: Record, into: State) -> Callable[[], object]:
    return lambda: tier.load(record.name, lambda size, rest: into)


def seconds(clock: Callable[[], float], action: Callable[[], object]) -> float:
    start = clock()
    action()
    return clock() - start


def measured(
    context: Context, tiers: dict[str, tuple[Tier, str, str]], identity: Identity, rounds: int
) -> dict[str, Any]:
    """The row of one state."""
    size = context.state_size(partial=False)
    state = context.save_state(partial=False, into=np.zeros(size, dtype=np.uint8))
    other = np.zeros(size, dtype=np.uint8)
    samples: dict[str, list[float]] = {}
    for number in range(rounds):
        steps: dict[str, tuple[Callable[[], float], Callable[[], object]]] = {
            "copy": (time.process_time, lambda: np.copyto(other, state)),
            "save": (time.process_time, lambda: context.save_state(partial=False, into=state)),
            "new": (time.process_time, lambda: context.save_state(partial=False)),
            "restore": (time.process_time, lambda: restored(context, state)),
        }
        for tier, write, read in tiers.values():
            record = Record(Name(identity.digest, size, f"{number:032x}"), state, None)
            steps[write] = time.perf_counter, put(tier, record, identity)
            steps[read] = time.perf_counter, load(tier, record, other)
        for name, (clock, action) in steps.items():
            samples.setdefault(name, []).append(size / max(seconds(clock, action), 1e-9) / 1e6)
    return {"megabytes": size / 1e6, **{name: statistics.median(values) for name, values in samples.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--disk", help="a folder on the disk to measure; a temporary one by default")
    parser.add_argument("--redis", help="the URL of a Redis server to measure")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    rows = []
    with ExitStack() as outer:
        folder = arguments.disk or outer.enter_context(tempfile.TemporaryDirectory())
        tiers: dict[str, tuple[Tier, str, str]] = {"disk": (DiskTier(folder, bytes_limit=TIER_BYTES), "write", "read")}
        if arguments.redis:
            from runtime.store.remote import RedisTier

            tier = RedisTier(arguments.redis, bytes_limit=TIER_BYTES, timeout=30)
            tiers["redis"] = (tier, "put", "get")
        for kind, width, n_tokens in STATES:
            with ExitStack() as stack:
                context = evaluated(kind, width, n_tokens, stack)
                path = context.model.path
                begin = time.process_time()
                identity = identify(path, n_ctx_seq=context.n_ctx, exact=False)
                taken = time.process_time() - begin
                rows.append({"model": f"{kind}-{width}", **measured(context, tiers, identity, arguments.rounds)})
                rows[-1]["identify_ms"] = 1000 * taken
    if arguments.json:
        json.dump({"schema_version": 1, "rounds": arguments.rounds, "results": rows}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    columns = list(rows[0])
    lines = [columns, *([str(row[columns[0]]), *(f"{row[name]:.4g}" for name in columns[1:])] for row in rows)]
    for line in lines:
        sys.stdout.write("  ".join(f"{cell:>14}" for cell in line) + "\n")


if __name__ == "__main__":
    main()
