"""Token maps: the ids of a rendered prompt, their offsets, and where a token list may safely be cut."""

from __future__ import annotations

from spanparse.tokens.added import AddedToken, AddedTokens
from spanparse.tokens.base import Backend
from spanparse.tokens.hf import HuggingFaceTokenizer
from spanparse.tokens.llama import LlamaVocabulary
from spanparse.tokens.load import load_backend
from spanparse.tokens.map import MessageTokens, TokenBarrier, TokenMap, TokenRange, to_json, token_map
from spanparse.tokens.pieces import Pieces

__all__ = [
    "AddedToken",
    "AddedTokens",
    "Backend",
    "HuggingFaceTokenizer",
    "LlamaVocabulary",
    "MessageTokens",
    "Pieces",
    "TokenBarrier",
    "TokenMap",
    "TokenRange",
    "load_backend",
    "to_json",
    "token_map",
]
