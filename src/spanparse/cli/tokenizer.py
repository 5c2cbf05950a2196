"""Which tokenizer a command uses: the one it is told, else the one its source carries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spanparse.cli.prompt import is_tiny
from spanparse.errors import SourceError, SpanparseError

if TYPE_CHECKING:
    from spanparse.cli.prompt import Prompt
    from spanparse.sources import TemplateSource
    from spanparse.tokens import Backend, TokenMap


def find_backend(told: str | None, template: TemplateSource) -> tuple[Backend | None, str | None]:
    """The backend, and where there is none, why not.

    One that was told must load: raises `SourceError` (`MissingExtra` for a GGUF without the runtime). The source's own
    is taken if it can be read.
    """
    if told is not None:
        return _load(told), None
    if template.tokenizer is None:
        return None, "no tokenizer given (--tokenizer)"
    try:
        return _load(template.tokenizer), None
    except SourceError as error:
        return None, str(error)


def map_tokens(
    prompt: Prompt, told: str | None, *, trust_content: bool, quick: bool = False, mmproj: str | None = None
) -> tuple[TokenMap | None, str | None]:
    """The tokens of a rendered prompt, and where there are none, why not. Raises as `find_backend` and `fill_in`.

    With `quick` a GGUF's own vocabulary is left alone: llama.cpp may take seconds to load it.
    """
    own = prompt.template.tokenizer
    if quick and mmproj is None and told is None and own is not None and own.endswith(".gguf"):
        return None, f"--tokenizer {own} gives them"
    backend, why_none = find_backend(told, prompt.template)
    if backend is None:
        if mmproj is not None:
            raise SpanparseError(f"--mmproj {mmproj}: {why_none}")
        return None, why_none
    return tokens_by(backend, prompt, told, trust_content=trust_content, mmproj=mmproj), None


def tokens_by(
    backend: Backend, prompt: Prompt, told: str | None, *, trust_content: bool, mmproj: str | None
) -> TokenMap:
    """The tokens by a backend that is found already, for the option `told`."""
    from spanparse.cli.media import fill_in
    from spanparse.tokens import token_map

    media = fill_in(prompt, backend, mmproj, told or prompt.template.tokenizer)
    text = prompt.template.text
    return token_map(prompt.rendering, backend, template=text, trust_content=trust_content, media=media)


def _load(spec: str) -> Backend:
    if not Path(spec).exists() and is_tiny(spec):
        from runtime.tiny import vocabulary
        from spanparse.tokens import HuggingFaceTokenizer

        return HuggingFaceTokenizer(vocabulary.hf_tokenizer(), name=spec)
    from spanparse.tokens import load_backend

    return load_backend(spec)
