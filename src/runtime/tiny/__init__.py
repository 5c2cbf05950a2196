"""Tiny GGUF models and projectors with random weights: real memories of every kind, a few megabytes, no download.

They say nothing sensible, but they remember: a changed distant prefix changes what they generate, so a wrong state
shows. Importing this package needs neither gguf nor numpy nor llama.cpp; writing a model needs the [runtime] extra.
"""

from __future__ import annotations

from runtime.tiny.cache import ensure_model, ensure_projector
from runtime.tiny.model import KINDS, PROJECTORS, write_model, write_projector

__all__ = ["KINDS", "PROJECTORS", "ensure_model", "ensure_projector", "write_model", "write_projector"]
