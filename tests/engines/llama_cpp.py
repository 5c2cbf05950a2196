"""llama.cpp's own server, which the `xllamacpp` wheel carries, on a tiny model with random weights.

Its `/apply-template` answers a request with the prompt that it would evaluate. `chat_template_kwargs` become variables
of the template, also one that is called `messages`: that is the way past what the server does to a request, to the
engine alone.
"""

from __future__ import annotations

import http.client
import json
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import xllamacpp
from tests.audit.plain import presented
from tests.engines.pair import Outcome, Pair, Refused

from runtime.tiny.cache import ensure_model

_SOMETHING: list[dict[str, Any]] = [{"role": "user", "content": "not shown"}]


def build() -> str:
    """llama.cpp's build number, such as `b11549`."""
    return "b" + version("xllamacpp").rpartition(".")[2]


class NotServed(Exception):
    """llama-server does not start with the template."""


class LlamaServer:
    """The server with one template, until it is forgotten; raises `NotServed` if it does not start.

    `as_sent` asks for what it makes of a request; else the engine is given the pair as it is.
    """

    def __init__(self, template: str, *, as_sent: bool = False) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(ensure_model("dense"))
        parameters.chat_template = template
        parameters.port = 0
        parameters.n_ctx = 256
        parameters.n_parallel = parameters.cpuparams.n_threads = 1
        parameters.warmup = False
        parameters.verbosity = 0
        try:
            self._server = xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise NotServed from error
        self._address = urlsplit(self._server.listening_address).netloc
        self._as_sent = as_sent
        # A server that is told to stop before its loop has begun never does; a completion waits for the loop.
        self._post("/completion", {"prompt": "a", "n_predict": 1})

    def render(self, pair: Pair) -> Outcome:
        """The prompt as text; `Refused` says how the server puts it."""
        messages, tools = pair.conversation.messages, pair.conversation.tools
        request: dict[str, Any] = {"add_generation_prompt": pair.generation}
        if self._as_sent:
            request |= {"messages": messages, "chat_template_kwargs": {**pair.kwargs}}
            request |= {} if tools is None else {"tools": tools}
        else:
            # Equal inputs: what transformers, and so spanparse, shows a template.
            shown = {"messages": presented(messages), "tools": tools, "documents": None}
            flag = {"add_generation_prompt": pair.generation}
            request |= {"messages": _SOMETHING, "chat_template_kwargs": {**pair.kwargs, **shown, **flag}}
        answer = self._post("/apply-template", request)
        return str(answer["prompt"]) if "prompt" in answer else Refused(str(answer["error"]["message"]))

    def _post(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        # The server hangs up after a while, so each request has its own connection.
        connection = http.client.HTTPConnection(self._address)
        try:
            connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer
