"""A small engine to which images are shown, and whose answers are compared with cold runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.mtmd import image_part, picture, text_part

from runtime.completion import Completion
from runtime.engine import Engine
from runtime.llama import Context
from runtime.media import PreparedMedia
from runtime.requests import Request
from runtime.tiny import ensure_projector
from runtime.verify import Verifier
from spanparse import load_source

SMALL: dict[str, Any] = {"n_ctx": 1024, "n_batch": 256, "n_ubatch": 128, "n_threads": 1, "exact": True}
# A restored window has its cells in another order, in which sums round otherwise.
ROUNDING = {"swa": 0.05}
WRONG = 1.0
"""How far logits are off, at least, after another image of the same size; 6 was the least that was seen."""

Messages = list[dict[str, Any]]


@dataclass(repr=False)
class Desk:
    """An engine, and what has been encoded on it so far, as (part, number of the chunk)."""

    engine: Engine
    verifier: Verifier
    encoded: list[tuple[str, int]]

    def ask(self, messages: Messages, **options: Any) -> Completion:
        """An answer that is what a cold run gives."""
        completion = self.engine.generate(Request(messages, max_tokens=4, **options), logits=True)
        self.engine.check_integrity()
        self.compare(completion)
        return completion

    def compare(self, completion: Completion) -> None:
        if completion.finish != "cancelled":
            verdict = self.verifier.check(completion)
            assert verdict.logit_error is not None
            rounding = ROUNDING.get(self.engine.memory.kind, 2e-3)
            assert verdict.logit_error < rounding
            assert verdict.identical or (verdict.gap is not None and verdict.gap < rounding)


def open_desk(patch: pytest.MonkeyPatch, model: Path, projector: str, template: str, **options: Any) -> Iterator[Desk]:
    encoded: list[tuple[str, int]] = []
    evaluate = PreparedMedia.evaluate
    with (
        Engine(
            model, template=load_source(template), projector=ensure_projector(projector), **{**SMALL, **options}
        ) as engine,
        Verifier(engine) as verifier,
    ):

        def counted(self: PreparedMedia, context: Context, number: int, position: int, **rest: Any) -> int:
            if context is engine.tree.context:
                encoded.append((self.where, number))
            return evaluate(self, context, number, position, **rest)

        patch.setattr(PreparedMedia, "evaluate", counted)
        yield Desk(engine, verifier, encoded)
        patch.undo()


def user(*content: dict[str, Any] | str) -> dict[str, Any]:
    if len(content) == 1 and isinstance(content[0], str):
        return {"role": "user", "content": content[0]}
    return {"role": "user", "content": [text_part(one) if isinstance(one, str) else one for one in content]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def image(seed: int, width: int = 200, height: int = 100) -> dict[str, Any]:
    return image_part(picture(width, height, seed))
