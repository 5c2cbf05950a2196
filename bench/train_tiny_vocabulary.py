"""Train the merges of the tiny models' vocabulary from fixtures/corpus.txt.

Run once, and again only when a new vocabulary is wanted on purpose: every golden token count moves with it.

    python bench/train_tiny_vocabulary.py

Reads `fixtures/corpus.txt`, writes `src/runtime/tiny/merges.txt`: one merge a line, "left right" in GPT-2's printable
byte alphabet, in the order of their ranks. The trainer is the `tokenizers` package's BPE trainer, the same text always
gives the same merges. Text is cut by the pre-tokenizer that the vocabulary uses, so no merge crosses a border that it
could never cross in use.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from runtime.tiny.vocabulary import N_BYTES, N_MERGES, pre_tokenizer

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fixtures" / "corpus.txt"
MERGES = ROOT / "src" / "runtime" / "tiny" / "merges.txt"


def train(text: str) -> list[str]:
    """The merges learned from `text`, best first, each as "left right"."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizer()
    trainer = BpeTrainer(
        vocab_size=N_BYTES + N_MERGES,
        min_frequency=2,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    merges: list[list[str]] = json.loads(tokenizer.to_str())["model"]["merges"]
    return [" ".join(pair) for pair in merges]


def main() -> None:
    """Train on the corpus and replace the committed merges."""
    merges = train(CORPUS.read_text(encoding="utf-8"))
    if len(merges) != N_MERGES:
        raise SystemExit(f"the corpus yields {len(merges)} merges, {N_MERGES} are wanted: lengthen it")
    MERGES.write_text("\n".join(merges) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
