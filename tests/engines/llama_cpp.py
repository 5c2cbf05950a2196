"""llama.cpp's own Jinja engine, which the `ggufdoctor` wheel carries as a WebAssembly module.

The module takes `{"template", "context", "normalize"}` as JSON and answers `{"ok", "text"}` or `{"ok", "stage",
"error"}`. Without `normalize` the template is given the context as it is; with it the messages first go through what
llama-server does to them, and variables that nobody set get the server's defaults.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import wasmtime
from tests.engines.pair import Outcome, Pair, Refused


def build() -> str:
    """llama.cpp's build number, such as `b10775`."""
    manifest = json.loads((resources.files("ggufdoctor") / "engine_data" / "llamacpp-jinja.json").read_text("utf-8"))
    return str(manifest["build_tag"])


class LlamaCpp:
    """The engine; `prepared` asks for what llama-server does to messages before a template sees them."""

    def __init__(self, *, prepared: bool = False) -> None:
        config = wasmtime.Config()
        config.wasm_exceptions = True
        # Compiling takes two seconds; every process after the first finds the machine code in the cache.
        config.cache = True
        self._engine = wasmtime.Engine(config)
        code = (resources.files("ggufdoctor") / "engine_data" / "llamacpp-jinja.wasm").read_bytes()
        self._module = wasmtime.Module(self._engine, code)
        self._linker = wasmtime.Linker(self._engine)
        self._linker.define_wasi()
        self._prepared = prepared

    def render(self, pair: Pair) -> Outcome:
        """The prompt as text; `Refused` says how the engine puts it."""
        messages, tools = pair.conversation.messages, pair.conversation.tools
        context = {**pair.kwargs, "messages": messages, "add_generation_prompt": pair.generation}
        if tools or not self._prepared:
            # transformers, and so spanparse, defines both for every template; llama-server only what there is.
            context |= {"tools": tools, "documents": None}
        answer = self._call({"template": pair.template.text, "context": context, "normalize": self._prepared})
        return str(answer["text"]) if answer["ok"] else Refused(str(answer["error"]))

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        # A fresh memory for each call takes 0.2 ms; what one template does cannot reach the next.
        store = wasmtime.Store(self._engine)
        store.set_wasi(wasmtime.WasiConfig())
        exports: Any = self._linker.instantiate(store, self._module).exports(store)
        exports["_initialize"](store)
        memory, payload = exports["memory"], json.dumps(request).encode()
        at = exports["gd_alloc"](store, len(payload))
        memory.write(store, payload, at)
        try:
            start = exports["gd_render"](store, at, len(payload))
        except wasmtime.Trap as trap:
            return {"ok": False, "error": str(trap)}
        answer = memory.read(store, start, start + exports["gd_out_len"](store))
        decoded: dict[str, Any] = json.loads(bytes(answer))
        return decoded
