"""Exact message spans of chat templates, their tokens, and what the next turn will rewrite."""

from __future__ import annotations

from spanparse.analysis import Analysis, analyse
from spanparse.errors import (
    ConversationError,
    MediaUnavailable,
    MissingExtra,
    SourceError,
    SpanparseError,
    TemplateError,
    TemplateLimit,
    TemplateRefused,
)
from spanparse.parse import explain, parse, parse_request, request_of
from spanparse.prediction import Prediction, predict, predict_rendering
from spanparse.provenance import Provenance, Source, trace
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import Request, render_plain
from spanparse.sources import TemplateSource, load_source
from spanparse.spans import Barrier, MessageSpan, Note, Part, Piece, Preamble, Reason, Rendering
from spanparse.stability import stable_prefix, with_stability

__all__ = [
    "Analysis",
    "Barrier",
    "ConversationError",
    "Limits",
    "MediaUnavailable",
    "MessageSpan",
    "MissingExtra",
    "Note",
    "Part",
    "Piece",
    "Preamble",
    "Prediction",
    "Provenance",
    "Reason",
    "Rendering",
    "Request",
    "Source",
    "SourceError",
    "SpanparseError",
    "TemplateError",
    "TemplateLimit",
    "TemplateRefused",
    "TemplateSource",
    "analyse",
    "explain",
    "load_source",
    "parse",
    "parse_request",
    "predict",
    "predict_rendering",
    "render_plain",
    "request_of",
    "stable_prefix",
    "trace",
    "with_stability",
]
