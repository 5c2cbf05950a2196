"""transformers' own renderer, through the method that its users call."""

from __future__ import annotations

import datetime
from typing import Any
from unittest.mock import patch

from jinja2 import TemplateError
from tests.engines.pair import CLOCK, Outcome, Pair, Refused
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils


class _Clock(datetime.datetime):
    """`datetime` at a standstill: transformers has no argument for the time that `strftime_now` shows."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Clock:
        return cls(CLOCK.year, CLOCK.month, CLOCK.day)


# Not annotated by transformers.
_TOKENIZER: Any = PreTrainedTokenizerFast


class HuggingFace:
    """`apply_chat_template` of a tokenizer that has no vocabulary, since only the template matters."""

    def __init__(self) -> None:
        self._tokenizer = _TOKENIZER(tokenizer_object=Tokenizer(WordLevel({})))

    def render(self, pair: Pair) -> Outcome:
        """The prompt as text; `Refused` says what was raised."""
        try:
            with patch.object(chat_template_utils, "datetime", _Clock):
                text = self._tokenizer.apply_chat_template(
                    pair.conversation.messages,
                    tools=pair.conversation.tools,
                    chat_template=pair.template.text,
                    add_generation_prompt=pair.generation,
                    tokenize=False,
                    **pair.kwargs,
                )
        # What a template can raise: its own raise_exception, undefined values, and Python's complaints about operands.
        except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            return Refused(" ".join(str(error).split()) or type(error).__name__)
        return str(text)
