"""How much longer a parse takes than a plain render of the same prompt.

usage: python bench/parse_speed.py [TEMPLATE …] [--messages N] [--rounds N] [--tokenizer FOLDER] [--json]

Templates are anything `load_source` reads; all bundled ones by default. The conversation is an agent's: a long system
text, tool rounds with reasoning, and a new user message now and then; 500 messages make about 550,000 characters, or
170,000 tokens. Each round times, in CPU seconds and in turn: a render by Jinja as transformers sets it up (the
yardstick), `parse` with the equality check, `parse` without, `parse` with every span read, a parse of four times as
many messages, and a tokenizer: the tiny vocabulary's, or that of a Hugging Face folder. Printed are the medians of the
ratios to the yardstick of the same round, so that a busy machine slows both sides alike; growth is the large parse's
time for a message over the small one's.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runtime.tiny.vocabulary import hf_tokenizer
from spanparse import Rendering, SpanparseError, TemplateSource, load_source, parse, parse_request, request_of
from spanparse.rendering.extensions import GenerationBlock
from spanparse.sources import bundled_names

WORDS = [
    "the",
    "of",
    "to",
    "and",
    "in",
    "is",
    "it",
    "that",
    "for",
    "was",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
]


def conversation(messages: int, seed: int = 1) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """An agent's conversation of about `messages` messages and its tools."""
    rng = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(words))

    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": text(8)}},
        "required": ["path"],
    }
    tools = [
        {"type": "function", "function": {"name": name, "description": text(30), "parameters": schema}}
        for name in ("read", "write", "bash", "grep", "edit")
    ]
    chat: list[dict[str, Any]] = [{"role": "system", "content": text(3000)}, {"role": "user", "content": text(50)}]
    while len(chat) < messages - 2:
        number = f"call{len(chat):05d}"
        function = {"name": "read", "arguments": {"path": text(3), "line": rng.randrange(999)}}
        call = {"id": number, "type": "function", "function": function}
        chat.append({"role": "assistant", "content": "", "reasoning_content": text(60), "tool_calls": [call]})
        chat.append({"role": "tool", "tool_call_id": number, "name": "read", "content": text(550)})
        if len(chat) % 40 == 0:
            chat += [{"role": "assistant", "content": text(60)}, {"role": "user", "content": text(30)}]
    return chat, tools


def yardstick(template: TemplateSource, variables: dict[str, Any]) -> Callable[[], str]:
    """A plain render by Jinja itself, with the settings of transformers."""

    def refuse(message: str) -> None:
        raise ValueError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **style: json.dumps(value, **{"ensure_ascii": False, **style})
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda layout: "2026-01-01"
    compiled = environment.from_string(template.text)
    return lambda: compiled.render(**variables)


def cpu_seconds(work: Callable[[], object]) -> float:
    gc.collect()  # else what one work leaves is collected in another, the same one in each round
    start = time.process_time()
    work()
    return time.process_time() - start


def tokenizer_of(folder: Path | None) -> Callable[[str], object]:
    if folder is None:
        return hf_tokenizer().encode
    from tokenizers import Tokenizer

    packed = folder / "tokenizer.json.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / "tokenizer.json").read_bytes()
    return Tokenizer.from_buffer(data).encode


def read(rendering: Rendering) -> object:
    """All that a parse puts off until it is asked for."""
    return rendering.preamble, rendering.messages, rendering.barriers, rendering.caller_text, rendering.system_end


def measure(template: TemplateSource, messages: int, rounds: int, tokenize: Callable[[str], object]) -> dict[str, Any]:
    """Median ratios for one template. Raises `SpanparseError` if it refuses the conversation."""
    chat, tools = conversation(messages)
    start = time.process_time()
    parse(template, chat[:2], tools=tools)
    first = time.process_time() - start
    request = request_of(template, chat, tools=tools)
    variables = {**request.kwargs, "messages": chat, "tools": tools, "documents": None, "add_generation_prompt": True}
    plain = yardstick(template, variables)
    text = parse_request(template, request).text
    large = request_of(template, conversation(4 * messages)[0], tools=tools)
    names = ("plain", "parse", "unchecked", "read", "tokenize", "large")
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        times["plain"].append(cpu_seconds(plain))
        times["parse"].append(cpu_seconds(lambda: parse_request(template, request)))
        times["unchecked"].append(cpu_seconds(lambda: parse_request(template, request, verify=False)))
        times["read"].append(cpu_seconds(lambda: read(parse_request(template, request))))
        times["tokenize"].append(cpu_seconds(lambda: tokenize(text)))
        times["large"].append(cpu_seconds(lambda: parse_request(template, large)))
    over = {
        name: [_over(*each) for each in zip(times[name], times["plain"], times["tokenize"], strict=True)]
        for name in ("parse", "unchecked")
    }
    return {
        "template": template.source,
        "characters": len(text),
        "plain_ms": 1000 * statistics.median(times["plain"]),
        "parse": _median_ratio(times["parse"], times["plain"]),
        "unchecked": _median_ratio(times["unchecked"], times["plain"]),
        "read": _median_ratio(times["read"], times["plain"]),
        "plain_of_tokenizing": _median_ratio(times["plain"], times["tokenize"]),
        "overhead_of_tokenizing": statistics.median(over["parse"]),
        "unchecked_overhead_of_tokenizing": statistics.median(over["unchecked"]),
        "growth": _median_ratio(times["large"], times["parse"]) / 4,
        "first_call_ms": 1000 * first,
    }


def _over(parse: float, plain: float, tokenize: float) -> float:
    return (parse - plain) / tokenize


def _median_ratio(over: list[float], under: list[float]) -> float:
    return statistics.median(p / q for p, q in zip(over, under, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", nargs="*", default=list(bundled_names()))
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    tokenize = tokenizer_of(options.tokenizer)
    for name in options.templates:
        try:
            row = measure(load_source(name), options.messages, options.rounds, tokenize)
        except SpanparseError as error:
            sys.stderr.write(f"{error}\n")
            continue
        rows.append(row)
        if not options.json:
            sys.stdout.write(
                f"{row['template'][-44:]:44s} {row['characters']:8d} chars  plain {row['plain_ms']:6.1f} ms"
                f"  parse {row['parse']:5.2f} x  unchecked {row['unchecked']:5.2f} x"
                f"  read {row['read']:5.2f} x"
                f"  over plain {100 * row['overhead_of_tokenizing']:5.1f} %, unchecked"
                f" {100 * row['unchecked_overhead_of_tokenizing']:5.1f} % of tokenizing"
                f"  growth {row['growth']:4.2f}"
                f"  first call {row['first_call_ms']:5.0f} ms\n"
            )
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    return 0 if rows else 2


if __name__ == "__main__":
    sys.exit(main())
