"""What a token map costs beside the tokeniser itself, and what the next turn of a conversation costs.

usage: python bench/token_speed.py [TOKENIZER …] [--template NAME] [--tokens N] [--turn N] [--rounds N] [--json]

TOKENIZER is anything `load_backend` reads; without one it is the tiny models' vocabulary, read by both backends. The
conversation is an agent's that reads the files of this repository, 200,000 tokens long, and then goes on by a round of
500. Each round times, in CPU seconds and in turn: the bare tokeniser on the whole prompt, a token map of it, a token
map of the longer prompt, and the same one made from the earlier map. Printed are the medians of the ratios within a
round, so that a busy machine slows both sides alike: `map` is the map over the bare tokeniser, `turn` the map made from
the earlier one over the whole map of the same prompt.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runtime.tiny import write_model
from runtime.tiny.vocabulary import hf_tokenizer
from spanparse import SpanparseError, TemplateSource, load_source, parse
from spanparse.tokens import Backend, HuggingFaceTokenizer, LlamaVocabulary, load_backend, token_map

ROOT = Path(__file__).resolve().parents[1]
# One file read is some 600 tokens, which is what agents' tools often return.
EXCERPT = 2000


def rounds_of_reading(seed: int = 1) -> Iterator[list[dict[str, Any]]]:
    """An endless agent: each round a call with reasoning, and an excerpt from a file of this repository."""
    rng = random.Random(seed)
    files = sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("fixtures/*.txt")])
    texts = [(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in files]
    for number in count():
        path, text = rng.choice(texts)
        at = rng.randrange(max(1, len(text) - EXCERPT))
        function = {"name": "read", "arguments": {"path": path, "offset": at, "limit": EXCERPT}}
        call = {"id": f"call{number:05d}", "type": "function", "function": function}
        reasoning = rng.choice(texts)[1][:250]
        yield [
            {"role": "assistant", "content": "", "reasoning_content": reasoning, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "name": "read", "content": text[at : at + EXCERPT]},
        ]


def conversations(backend: Backend, tokens: int, turn: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A conversation of at least `tokens` tokens, and the same with one round of about `turn` tokens more.

    The agent is still at work: with a new user message, templates would drop its reasoning from the whole prompt.
    """

    def size(message: dict[str, Any]) -> int:
        return len(backend.encode(message["content"] + message.get("reasoning_content", ""), special=False))

    chat = [{"role": "system", "content": "You read files."}, {"role": "user", "content": "Read all of them."}]
    held = 0
    reading = rounds_of_reading()
    while held < tokens:
        messages = next(reading)
        held += sum(map(size, messages))
        chat += messages
    call, result = next(reading)
    while size(call) + size(result) > turn:
        result["content"] = result["content"][: -EXCERPT // 100]
    return chat, [*chat, call, result]


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(backend: Backend, template: TemplateSource, tokens: int, turn: int, rounds: int) -> dict[str, Any]:
    """Median ratios for one tokeniser. Raises `SpanparseError` if the template refuses the conversation."""
    shorter, longer = (parse(template, chat, verify=False) for chat in conversations(backend, tokens, turn))
    before = token_map(shorter, backend, template=template.text)
    times: dict[str, list[float]] = {"bare": [], "map": [], "longer": [], "turn": []}
    for _ in range(rounds):
        times["bare"].append(cpu_seconds(lambda: backend.encode(shorter.text, special=True)))
        times["map"].append(cpu_seconds(lambda: token_map(shorter, backend, template=template.text)))
        times["longer"].append(cpu_seconds(lambda: token_map(longer, backend, template=template.text)))
        grow = cpu_seconds(lambda: token_map(longer, backend, template=template.text, previous=before))
        times["turn"].append(grow)
    whole = token_map(longer, backend, template=template.text)
    grown = token_map(longer, backend, template=template.text, previous=before)
    return {
        "tokenizer": backend.name,
        "template": template.source,
        "tokens": before.count,
        "turn_tokens": whole.count - before.count,
        "same": (grown.ids, grown.offsets, grown.barriers) == (whole.ids, whole.offsets, whole.barriers),
        "bare_ms": 1000 * statistics.median(times["bare"]),
        "map": statistics.median(m / b for m, b in zip(times["map"], times["bare"], strict=True)),
        "turn_ms": 1000 * statistics.median(times["turn"]),
        "turn": statistics.median(t / m for t, m in zip(times["turn"], times["longer"], strict=True)),
    }


def tiny() -> Iterator[Backend]:
    yield HuggingFaceTokenizer(hf_tokenizer(), name="tiny, tokenizers")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dense.gguf"
        write_model("dense", path)
        yield LlamaVocabulary(path, name="tiny, llama.cpp")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizers", nargs="*")
    parser.add_argument("--template", default="chatml")
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--turn", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for backend in map(load_backend, options.tokenizers) if options.tokenizers else tiny():
        try:
            row = measure(backend, load_source(options.template), options.tokens, options.turn, options.rounds)
        except SpanparseError as error:
            sys.stderr.write(f"{error}\n")
            continue
        rows.append(row)
        if not options.json:
            sys.stdout.write(
                f"{row['tokenizer'][-32:]:32s} {row['tokens']:7d} tokens  bare {row['bare_ms']:7.1f} ms"
                f"  map {row['map']:5.2f} x  turn of {row['turn_tokens']} {row['turn_ms']:6.1f} ms"
                f" = {100 * row['turn']:4.1f} %  {'same' if row['same'] else 'DIFFERENT'}\n"
            )
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    return 0 if rows and all(row["same"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
