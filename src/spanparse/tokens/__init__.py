"""Token maps: the ids of a rendered prompt, their offsets, and where a token list may safely be cut."""

from __future__ import annotations

from spanparse.tokens.added import AddedToken, AddedTokens
from spanparse.tokens.base import Backend
from spanparse.tokens.drift import Drift, DriftToken, find_drift
from spanparse.tokens.hf import HuggingFaceTokenizer
from spanparse.tokens.llama import LlamaVocabulary
from spanparse.tokens.load import load_backend
from spanparse.tokens.map import MessageTokens, TokenBarrier, TokenMap, TokenRange, to_json
from spanparse.tokens.mapping import token_map
from spanparse.tokens.media import MediaRun
from spanparse.tokens.pieces import Pieces
from spanparse.tokens.sampled import keep_sampled

__all__ = [
    "AddedToken",
    "AddedTokens",
    "Backend",
    "Drift",
    "DriftToken",
    "HuggingFaceTokenizer",
    "LlamaVocabulary",
    "MediaRun",
    "MessageTokens",
    "Pieces",
    "TokenBarrier",
    "TokenMap",
    "TokenRange",
    "find_drift",
    "keep_sampled",
    "load_backend",
    "to_json",
    "token_map",
]
