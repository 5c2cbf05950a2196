"""Errors as they travel between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from spanparse import errors
from spanparse.errors import SpanparseError

ERRORS = [
    SpanparseError("said"),
    errors.SourceError("a.jinja", "is a folder"),
    errors.MissingExtra("a.gguf", "runtime", "its tokenizer"),
    errors.ConversationError("messages[1].role", "is no text", 1),
    errors.MediaUnavailable("messages[0].content[2]", "is a URL", 0),
    errors.TemplateError("chatml", "line 1: unexpected"),
    errors.TemplateRefused("chatml", "no system text", 3),
    errors.TemplateLimit("chatml", "still rendering"),
]


def test_every_class_of_error_is_among_them() -> None:
    classes = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {type(error) for error in ERRORS} == classes


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickle_and_copy(error: SpanparseError) -> None:
    error.add_note("seen on the way")
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(found) is type(error)
        assert str(found) == str(error)
        assert vars(found) == vars(error)
