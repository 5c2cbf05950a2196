"""How much longer a request waits for its plan where that asks for a forecast.

usage: python bench/forecast_speed.py [TEMPLATE …] [--messages N] [--rounds N] [--json]

A forecast (`spanparse.prediction.Forecast`) makes at most two predictions for each turn of a user, before anything of
the prompt is evaluated. The conversation is that of `parse_speed.py`, grown by a tool round. Each round times, in CPU
seconds and in turn: what an engine does without one, parse and token map made from the earlier ones, and a prediction.
Printed is the median of the ratios, so that a busy machine slows both sides alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

from parse_speed import conversation

from runtime.tiny.vocabulary import hf_tokenizer
from spanparse import SpanparseError, TemplateSource, load_source, parse_request, request_of
from spanparse.prediction import predict_rendering
from spanparse.tokens import HuggingFaceTokenizer, token_map

TEMPLATES = ("chatml", "gpt-oss", "gemma4", "qwen3-coder", "deepseek")


def measure(template: TemplateSource, messages: int, rounds: int) -> dict[str, float | str]:
    """The row of one template. Raises `SpanparseError` if it refuses the conversation."""
    backend = HuggingFaceTokenizer(hf_tokenizer(), name="tiny")
    chat, tools = conversation(messages)
    earlier, request = (request_of(template, chat[:end], tools=tools) for end in (-2, None))
    before = parse_request(template, earlier)
    known = token_map(before, backend, template=template.text)
    prepared, predicted = [], []
    for _ in range(rounds):
        start = time.process_time()
        rendering = parse_request(template, request)
        tokens = token_map(rendering, backend, template=template.text, previous=known)
        middle = time.process_time()
        predict_rendering(rendering, template, request, backend=backend, tokens=tokens, remedies=False)
        prepared.append(middle - start)
        predicted.append(time.process_time() - middle)
    return {
        "template": template.source,
        "tokens": tokens.count,
        "prepare_ms": 1000 * statistics.median(prepared),
        "predict_ms": 1000 * statistics.median(predicted),
        "ratio": statistics.median(late / early for late, early in zip(predicted, prepared, strict=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", nargs="*", default=TEMPLATES)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for name in options.templates:
        try:
            row = measure(load_source(name, tools=True), options.messages, options.rounds)
        except SpanparseError as error:
            sys.stderr.write(f"{error}\n")
            continue
        rows.append(row)
        if not options.json:
            sys.stdout.write(
                "{template:12} {tokens:8,} tokens  prepare {prepare_ms:5.0f} ms  a prediction {predict_ms:5.0f} ms"
                "  {ratio:4.2f} x\n".format(**row)
            )
            sys.stdout.flush()
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    return 0 if rows else 2


if __name__ == "__main__":
    sys.exit(main())
