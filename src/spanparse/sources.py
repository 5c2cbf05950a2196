"""Where a chat template comes from: GGUF file, Hugging Face folder, template file, standard input, bundled name."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, BinaryIO, Final

from spanparse.errors import SourceError
from spanparse.files import read_bounded, read_file
from spanparse.gguf_header import MAGIC, GgufHeader

_GGUF_TEMPLATE: Final = "tokenizer.chat_template"
_GGUF_TOKENS: Final = "tokenizer.ggml.tokens"
# GGUF names these tokens by id where transformers names them by text.
_GGUF_SPECIAL: Final = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
}
# The largest tokenizer_config.json in use are a few MB; a model given by mistake must not be loaded.
_MAX_FILE_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A chat template and what the file around it says about it.

    `source` is the name it was asked for by. `sha256` is that of the text in UTF-8. `variant` is the template's name
    among several in one source, None where there is only one. `special_tokens` are the variables (`bos_token`,
    `eos_token`, …) a template may use beside the messages. `tokenizer` is the path of a file that holds the matching
    vocabulary, None if the source has none.
    """

    source: str
    text: str = field(repr=False)
    sha256: str
    variant: str | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    tokenizer: str | None = None


def load_source(
    spec: str, variant: str | None = None, *, tools: bool = False, stdin: BinaryIO | None = None
) -> TemplateSource:
    """Finds and reads the template that `spec` names.

    `spec` is a path (`.gguf`, a Hugging Face folder, a template's text), `-` for standard input (`stdin` instead, if
    given) or a name from `bundled_names()`; an existing path wins over a bundled name. The names of tiny models are the
    command line's: from Python, `runtime.tiny.ensure_model` gives the path of one. Among several templates in one
    source, `variant` chooses by name; without it the choice is transformers': `tool_use` if there are `tools`, else
    `default`. Raises `SourceError`.
    """
    if spec == "-":
        return _single(spec, _from_stdin(stdin), variant)
    if not spec:
        raise SourceError("SOURCE", "is empty")
    path = Path(spec)
    try:
        if path.is_dir():
            return _from_folder(spec, path, variant, tools)
        if path.exists():
            return _from_file(spec, path, variant, tools)
    except ValueError as error:
        raise SourceError(spec, f"not a usable path ({error})") from error
    except OSError as error:
        raise SourceError(spec, error.strerror or str(error)) from error
    if spec in bundled_names():
        return _single(spec, bundled_template(spec), variant)
    names = f"{', '.join(bundled_names())}; a tiny model's file comes from runtime.tiny.ensure_model"
    raise SourceError(spec, f"no such file, and no bundled template of that name ({names})")


def bundled_names() -> tuple[str, ...]:
    """The names of the templates that come with spanparse, sorted."""
    names = (entry.name for entry in _bundled_folder().iterdir())
    return tuple(sorted(name.removesuffix(".jinja") for name in names if name.endswith(".jinja")))


def bundled_template(name: str) -> str:
    """The text of the bundled template `name`; raises `SourceError` listing the names if there is none."""
    if name not in bundled_names():
        raise SourceError(name, f"no bundled template of that name ({', '.join(bundled_names())})")
    return (_bundled_folder() / f"{name}.jinja").read_text("utf-8")


def bundled_data(name: str, *, in_repository: str) -> Traversable:
    """A folder that is shipped inside the package; an editable install reads it where the repository has it."""
    packaged = resources.files("spanparse") / name
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / in_repository


def _bundled_folder() -> Traversable:
    return bundled_data("templates", in_repository="templates")


def _from_stdin(stdin: BinaryIO | None) -> str:
    stream = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise SourceError("-", "standard input is closed")
    try:
        data = read_bounded(stream, _MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise SourceError("-", f"standard input cannot be read ({error})") from error
    return _decode("-", data)


def _from_file(spec: str, path: Path, variant: str | None, tools: bool) -> TemplateSource:
    if not path.is_file():
        # A pipe or a device can be read only once, from the front.
        return _single(spec, _read_text(spec, path), variant)
    with path.open("rb") as file:
        is_gguf = file.read(len(MAGIC)) == MAGIC
    if is_gguf or path.suffix == ".gguf":
        return _from_gguf(spec, path, variant, tools)
    if path.suffix == ".json":
        raise SourceError(spec, "a JSON file is not a template; give the folder that holds it")
    return _single(spec, _read_text(spec, path), variant)


def _from_gguf(spec: str, path: Path, variant: str | None, tools: bool) -> TemplateSource:
    with GgufHeader(path) as header:
        keys = {key.removeprefix(f"{_GGUF_TEMPLATE}."): key for key in header if key.startswith(f"{_GGUF_TEMPLATE}.")}
        if _GGUF_TEMPLATE in header:
            keys["default"] = _GGUF_TEMPLATE
        # Cut by hand out of a file whose tokens were left out, a template is still a template.
        has_vocabulary = header.count(_GGUF_TOKENS) is not None
        name = _choose(spec, keys, variant, tools, f"no chat template in this GGUF (no field {_GGUF_TEMPLATE})")
        text = header.text(keys[name]) or ""
        special = _gguf_special_tokens(header) if has_vocabulary else {}
    return _source(spec, text, name if len(keys) > 1 else None, special, str(path) if has_vocabulary else None)


def _gguf_special_tokens(header: GgufHeader) -> dict[str, str]:
    ids = {name: header.integer(key) for name, key in _GGUF_SPECIAL.items()}
    texts = header.strings(_GGUF_TOKENS, {i for i in ids.values() if i is not None})
    return {name: texts[i] for name, i in ids.items() if i is not None}


def _from_folder(spec: str, path: Path, variant: str | None, tools: bool) -> TemplateSource:
    config = _read_json(spec, path / "tokenizer_config.json")
    # Files beside the configuration override it; chat_template.json is how processors kept theirs before.
    templates = _folder_templates(str(path / "tokenizer_config.json"), config.get("chat_template"))
    legacy = path / "chat_template.json"
    if not templates and legacy.is_file():
        templates = _folder_templates(str(legacy), _read_json(spec, legacy).get("chat_template"))
    files = {file.stem: file for file in sorted((path / "additional_chat_templates").glob("*.jinja"))}
    if (path / "chat_template.jinja").is_file():
        files["default"] = path / "chat_template.jinja"
    if files:
        templates = {name: _read_text(str(file), file) for name, file in files.items()}
    reason = "no chat template in this folder (neither chat_template.jinja nor tokenizer_config.json has one)"
    name = _choose(spec, templates, variant, tools, reason)
    special = {**_special_tokens(_read_json(spec, path / "special_tokens_map.json")), **_special_tokens(config)}
    vocabulary = path / "tokenizer.json"
    tokenizer = str(vocabulary) if vocabulary.is_file() else None
    return _source(spec, templates[name], name if len(templates) > 1 else None, special, tokenizer)


def _folder_templates(where: str, value: Any) -> dict[str, str]:
    """The `chat_template` entry: one text, a list of {name, template}, or absent."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    named: dict[str, str] = {}
    for pair in value if isinstance(value, list) else [value]:
        match pair:
            case {"name": str(name), "template": str(text)}:
                named[name] = text
            case _:
                raise SourceError(where, "chat_template is neither a string nor a list of {name, template}")
    return named


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Every `…_token` entry, written as a string or as {"content": …}, as transformers hands them to a template."""
    entries = {**config}
    extra = config.get("extra_special_tokens")
    if isinstance(extra, dict):
        entries.update(extra)
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in entries.items()}
    return {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}


def _choose(spec: str, templates: Mapping[str, Any], variant: str | None, tools: bool, if_none: str) -> str:
    """The name of the template to use among those the source has."""
    if not templates:
        raise SourceError(spec, if_none)
    wanted = variant or ("tool_use" if tools and "tool_use" in templates else "default")
    if wanted not in templates:
        names = ", ".join(sorted(templates))
        if variant:
            raise SourceError(spec, f"no template named {wanted} (it has {names})")
        raise SourceError(spec, f"no default among its templates (it has {names}; --variant NAME chooses)")
    return wanted


def _single(spec: str, text: str, variant: str | None) -> TemplateSource:
    _choose(spec, {"default": text}, variant, False, "")
    return _source(spec, text, None, {}, None)


def _source(
    spec: str, text: str, variant: str | None, special: Mapping[str, str], tokenizer: str | None
) -> TemplateSource:
    try:
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    except UnicodeEncodeError as error:
        raise SourceError(spec, f"the template holds half a surrogate pair at character {error.start}") from error
    return TemplateSource(spec, text, digest, variant, special, tokenizer)


def _read_json(spec: str, path: Path) -> dict[str, Any]:
    """The object in the file, an empty one if there is no file."""
    if not path.is_file():
        return {}
    text = _read_text(str(path), path)
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise SourceError(str(path), "JSON nested too deeply") from error
    except ValueError as error:
        raise SourceError(str(path), f"not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise SourceError(str(path), "not a JSON object")
    return value


def _read_text(name: str, path: Path) -> str:
    try:
        return _decode(name, read_file(path, _MAX_FILE_BYTES))
    except OSError as error:
        raise SourceError(name, error.strerror or str(error)) from error


def _decode(name: str, data: bytes | None) -> str:
    if data is None:
        raise SourceError(name, f"larger than {_MAX_FILE_BYTES >> 20} MiB, too large for a template or its settings")
    if data.startswith(MAGIC):
        raise SourceError(name, "a GGUF has to be an ordinary file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(name, f"not UTF-8 (byte {error.start})") from error
