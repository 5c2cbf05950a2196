"""Which tokenizer a command uses, and the tokens that it makes of a prompt and its media."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from spanparse.cli.output import warning_line
from spanparse.cli.prompt import Prompt, is_tiny
from spanparse.errors import MediaUnavailable, MissingExtra, SourceError, SpanparseError
from spanparse.sources import TemplateSource

if TYPE_CHECKING:
    from spanparse.media import Expand
    from spanparse.tokens import Backend, TokenMap
    from spanparse.tokens.media import Insertion


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


def fill_in(prompt: Prompt, backend: Backend, mmproj: str | None, model: str | None) -> list[Insertion]:
    """What goes in place of the prompt's media: all of them with a projector, for the text model `model`.

    Without one, those that can be decoded, with estimated lengths; a warning names each other. Raises
    `ConversationError` for broken media, and with a projector for all that cannot be counted.
    """
    from spanparse.media import decode, insertions, media_parts

    filled = []
    with ExitStack() as opened:
        expand = None if mmproj is None else _counting(mmproj, model, opened)
        for part in media_parts(prompt.request.messages):
            try:
                media = {(part.message, part.place): decode(part, files=True)}
                filled += insertions(prompt.rendering, media, expand, backend)
            except (MediaUnavailable, MissingExtra) as error:
                if mmproj is not None:
                    raise
                warning_line(f"{error}; how many tokens it takes is unknown")
    return filled


def _counting(mmproj: str, model: str | None, opened: ExitStack) -> Expand:
    from spanparse.cli.models import find_model, find_projector, require_runtime

    require_runtime(mmproj, "counting the tokens of media")
    from runtime.llama import Model
    from runtime.media import Projector

    if model is None or not (model.endswith(".gguf") or is_tiny(model)):
        raise SpanparseError(f"--mmproj {mmproj} needs the model itself: --tokenizer with its .gguf file")
    text_model = opened.enter_context(Model(find_model(model)))
    return opened.enter_context(Projector(find_projector(mmproj), text_model)).expand
