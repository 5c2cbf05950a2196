"""Tiny GGUF models with random weights: real memories of every kind, a few megabytes, no download.

They say nothing sensible, but they remember: a changed distant prefix changes what they generate, so a wrong state
shows. Importing this package needs neither gguf nor numpy nor llama.cpp; writing a model needs the [runtime] extra.
"""

from __future__ import annotations

from runtime.tiny.cache import ensure_model
from runtime.tiny.model import KINDS, write_model

__all__ = ["KINDS", "ensure_model", "write_model"]
