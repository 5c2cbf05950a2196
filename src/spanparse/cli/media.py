"""Media of a prompt on the command line: counted by a projector, estimated without one, or left unknown."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from spanparse.cli.output import warning_line
from spanparse.cli.prompt import is_tiny
from spanparse.errors import MediaUnavailable, MissingExtra, SpanparseError

if TYPE_CHECKING:
    from spanparse.cli.prompt import Prompt
    from spanparse.media import Expand
    from spanparse.tokens import Backend
    from spanparse.tokens.media import Insertion


def fill_in(prompt: Prompt, backend: Backend, mmproj: str | None, model: str | None) -> list[Insertion]:
    """What goes in place of the prompt's media: all of them with a projector, for the text model `model`.

    Without one, those that can be decoded, with estimated lengths; a warning names each other. Raises
    `ConversationError` for broken media, and with a projector for all that cannot be counted.
    """
    from spanparse.media import decode, insertions, media_parts

    filled = []
    with ExitStack() as opened:
        expand = None if mmproj is None else _load(mmproj, model, opened)
        for part in media_parts(prompt.request.messages):
            try:
                media = {(part.message, part.place): decode(part, files=True)}
                filled += insertions(prompt.rendering, media, expand, backend)
            except (MediaUnavailable, MissingExtra) as error:
                if mmproj is not None:
                    raise
                warning_line(f"{error}; how many tokens it takes is unknown")
    return filled


def _load(mmproj: str, model: str | None, opened: ExitStack) -> Expand:
    from spanparse.cli.models import find_model, find_projector, require_runtime

    require_runtime(mmproj, "counting the tokens of media")
    from runtime.llama import Model
    from runtime.media import Projector

    if model is None or not (model.endswith(".gguf") or is_tiny(model)):
        raise SpanparseError(f"--mmproj {mmproj} needs the model itself: --tokenizer with its .gguf file")
    text_model = opened.enter_context(Model(find_model(model)))
    return opened.enter_context(Projector(find_projector(mmproj), text_model)).expand
