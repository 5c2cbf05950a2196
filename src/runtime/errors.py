"""Everything the runtime raises on purpose.

    RunError
    ├── ModelError        a model file cannot be loaded or a context cannot be made from it
    ├── RequestError      a request cannot be served as it stands; names its line and field
    │   └── ContextFull   … because the prompt does not fit the context
    ├── DeadEnd           the grammar of an answer leaves no token to go on with
    ├── GrammarTooCostly  … or so many ways to go on that each token takes seconds
    ├── DecodeError       llama.cpp failed to evaluate a batch
    ├── EngineClosed      the engine was closed before the answer was complete
    ├── StateError        a saved state is not the one asked for, or llama.cpp refuses it
    └── StoreFull         a checkpoint would not fit the budget, so it was not taken

Each error's text is one line that names the thing it is about, fit to be shown to a user as it is.
"""

from __future__ import annotations


class RunError(Exception):
    """Base of all errors that the runtime raises on purpose."""


class ModelError(RunError):
    """The model file `path` cannot be loaded, or a context cannot be made from it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class RequestError(RunError):
    """A request cannot be served. `where` names it: a file and line with a field, or the field alone."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class ContextFull(RequestError):
    """A prompt of `prompt_tokens` does not fit a context of `n_ctx` tokens. `where`: what goes beyond, if known."""

    def __init__(self, prompt_tokens: int, n_ctx: int, where: str = "messages") -> None:
        super().__init__(where, f"the prompt has {prompt_tokens} tokens, the context holds {n_ctx}")
        self.prompt_tokens = prompt_tokens
        self.n_ctx = n_ctx


class DeadEnd(RunError):
    """A grammar allows neither an end here nor any token of the model's vocabulary."""

    def __init__(self) -> None:
        super().__init__("grammar: no token of this model can follow the answer so far, and it may not end here")


class GrammarTooCostly(RunError):
    """A grammar is so ambiguous that one token took `seconds` of processor time, which grows with every token."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"grammar: too ambiguous, one token took {seconds:.1f} s to allow")
        self.seconds = seconds


class DecodeError(RunError):
    """llama.cpp returned `code` instead of evaluating what `places` tells.

    Codes of `llama_decode`: 1 no room in the memory, 2 aborted, below 0 invalid input or a failure of the backend.
    """

    def __init__(self, code: int, places: str) -> None:
        super().__init__(f"llama.cpp failed with code {code} on {places}")
        self.code = code
        self.places = places


class EngineClosed(RunError):
    """The engine was closed before the request came or before its answer was complete.

    `cause`: the error that nobody foresaw and that ended it, None if it was closed by its owner.
    """

    def __init__(self, cause: BaseException | None = None) -> None:
        why = "" if cause is None else f": {type(cause).__name__}, which nobody foresaw, has ended it: {cause}"
        super().__init__(f"the engine is closed{why}")
        self.cause = cause


class StateError(RunError):
    """The state saved after `offset` tokens cannot be restored."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"checkpoint at {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class StoreFull(RunError):
    """A checkpoint of `size` bytes at `offset` does not fit what the budget leaves."""

    def __init__(self, offset: int, size: int) -> None:
        super().__init__(f"checkpoint at {offset}: no room for {size} bytes in the budget")
        self.offset = offset
        self.size = size
