"""An engine that executes checkpoint plans on llama.cpp, proves what it restores and reports what it cost.

Names are loaded when first used: the tiny models (`runtime.tiny`) need no llama.cpp.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.completion import Completion
    from runtime.engine import Engine
    from runtime.errors import (
        ContextFull,
        DeadEnd,
        DecodeError,
        EngineClosed,
        GrammarTooCostly,
        ModelError,
        RequestError,
        RunError,
        StateError,
        StoreFull,
    )
    from runtime.media import Projector
    from runtime.report import Report
    from runtime.requests import Request, read_requests
    from runtime.sampling import Sampling
    from runtime.session import Session
    from runtime.stream import AsyncStream, Stream
    from runtime.verify import Verdict, Verifier

__all__ = [
    "AsyncStream",
    "Completion",
    "ContextFull",
    "DeadEnd",
    "DecodeError",
    "Engine",
    "EngineClosed",
    "GrammarTooCostly",
    "ModelError",
    "Projector",
    "Report",
    "Request",
    "RequestError",
    "RunError",
    "Sampling",
    "Session",
    "StateError",
    "StoreFull",
    "Stream",
    "Verdict",
    "Verifier",
    "read_requests",
]

_MODULES = {
    "completion": ("Completion",),
    "engine": ("Engine",),
    "errors": (
        "ContextFull",
        "DeadEnd",
        "DecodeError",
        "EngineClosed",
        "GrammarTooCostly",
        "ModelError",
        "RequestError",
        "RunError",
        "StateError",
        "StoreFull",
    ),
    "media": ("Projector",),
    "report": ("Report",),
    "requests": ("Request", "read_requests"),
    "sampling": ("Sampling",),
    "session": ("Session",),
    "stream": ("AsyncStream", "Stream"),
    "verify": ("Verdict", "Verifier"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"runtime.{module}"), name)
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
