"""JSON schemas as grammars: what the schema's keywords say holds for every answer, or the schema is refused.

The conversion is llama-cpp-python's `SchemaConverter`. It passes over what it does not know, and errs in places: texts
with quotes or line breaks, two definitions of one name, control characters in strings, long repetitions. So a schema is
read keyword by keyword first, and those places are ours. Properties come in the schema's order; where it names some,
others are left out, which a schema allows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, final

from runtime.errors import RequestError
from runtime.sampling.gbnf import GrammarFault, check_grammar
from spanparse.errors import MissingExtra

try:
    _bindings: Any = import_module("llama_cpp.llama_grammar")
except ImportError as error:
    raise MissingExtra("llama.cpp", "runtime", "answers after a JSON schema") from error

_MAX_DEPTH = 64
_MAX_COUNT = 2000  # of repetitions in one grammar rule
_ANNOTATIONS = {"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"}
_ANNOTATIONS |= {"$schema", "$id", "$comment", "$defs", "definitions"}
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "prefixItems", "minItems", "maxItems")),
    "string": frozenset(("minLength", "maxLength", "pattern", "format")),
}
_FORMATS = ("date", "time", "date-time", "uuid")
# What means the same in a regular expression, in a grammar and inside a JSON string.
_PATTERN = re.compile(
    r"\^(?:[\w /:@#,;=<>!~%&-]|\[(?:[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9]|[\w /:@#,;=<>!~%&.])+-?\]"
    r"|(?<=[\w\])])(?:[*+?]|\{\d{1,2}(?:,(?:\d{1,2})?)?\})|\((?!\?)|\)|\|)*\$",
    re.ASCII,
)
_CHARACTER = r'[^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])'

Schema = dict[str, Any]


def schema_grammar(schema: Any, field: str = "schema") -> str:
    """A grammar of the JSON texts that obey `schema`. `field` is its place in the request.

    `oneOf` is read as `anyOf`. Raises `RequestError` naming the place of the first keyword that cannot be kept.
    """
    reader = _Reader(schema, field)
    read = reader.read(schema, field, 0)
    converter = _Converter(reader.definitions)
    try:
        converter.visit(read, "")
        grammar = str(converter.format_grammar())
        check_grammar(grammar)
    except GrammarFault as error:
        raise RequestError(field, f"makes a grammar that is refused: {error}") from error
    return grammar


@final
class _Reader:
    """Copies a schema without its annotations; `definitions` collects what its references point at."""

    def __init__(self, root: Any, field: str) -> None:
        self.definitions: dict[str, Schema] = {}
        self._root = root
        self._field = field

    def read(self, schema: Any, where: str, depth: int) -> Schema:
        """The part of a schema at `where`. Raises `RequestError` for what the converter would pass over."""
        if not isinstance(schema, dict):
            raise RequestError(where, "should be an object")
        if depth > _MAX_DEPTH:
            raise RequestError(where, f"nested more than {_MAX_DEPTH} deep")
        keywords = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        if not keywords:
            return {"type": "value"}
        for key, read in self._alone().items():
            if key in keywords:
                self._only(keywords, {key, "type"} if key in ("const", "enum") else {key}, where)
                return read(keywords, where, depth)
        kind = keywords.get("type", self._implied(keywords))
        if isinstance(kind, list) and kind and all(one in _TYPES for one in kind):
            self._only(keywords, {"type"}, where)
            return {"anyOf": [{"type": one} for one in kind]}
        if kind is None and "type" not in keywords:
            self._only(keywords, set(), where)
        if kind not in _TYPES:
            raise RequestError(f"{where}.type", f"should be one of {', '.join(_TYPES)}")
        self._only(keywords, {"type", *_KEYWORDS.get(kind, ())}, where)
        details: dict[str, Callable[[Schema, str, int], Schema]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
        }
        rest = details[kind](keywords, where, depth) if kind in details else {}
        return {"type": kind, **rest}

    def _alone(self) -> dict[str, Callable[[Schema, str, int], Schema]]:
        return {
            "$ref": self._reference,
            "anyOf": lambda schema, where, depth: self._union("anyOf", schema, where, depth),
            "oneOf": lambda schema, where, depth: self._union("oneOf", schema, where, depth),
            "const": lambda schema, where, depth: {"const": schema["const"]},
            "enum": self._enum,
        }

    @staticmethod
    def _implied(keywords: Schema) -> str | None:
        return next((kind for kind, own in _KEYWORDS.items() if own & keywords.keys()), None)

    @staticmethod
    def _only(keywords: Schema, known: set[str], where: str) -> None:
        for key in keywords:
            if key not in known:
                raise RequestError(f"{where}.{key}", "a grammar cannot keep this, or not beside the rest")

    def _reference(self, schema: Schema, where: str, depth: int) -> Schema:
        name = schema["$ref"]
        if not isinstance(name, str) or not re.match(r"#(?:/|$)", name):
            raise RequestError(f"{where}.$ref", "should point into this schema (#/…)")
        if name not in self.definitions:
            self.definitions[name] = {}  # a definition may hold itself
            target = self._root
            for step in name[1:].split("/")[1:]:
                step = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(target, dict) or step not in target:
                    raise RequestError(f"{where}.$ref", f"{name} is not in the schema")
                target = target[step]
            self.definitions[name] = self.read(target, self._field + name[1:].replace("/", "."), depth + 1)
        return {"$ref": name}

    def _union(self, key: str, schema: Schema, where: str, depth: int) -> Schema:
        alternatives = schema[key]
        if not isinstance(alternatives, list) or not alternatives:
            raise RequestError(f"{where}.{key}", "should be a list of schemas")
        return {"anyOf": [self.read(one, f"{where}.{key}[{i}]", depth + 1) for i, one in enumerate(alternatives)]}

    def _enum(self, schema: Schema, where: str, depth: int) -> Schema:
        if not isinstance(schema["enum"], list) or not schema["enum"]:
            raise RequestError(f"{where}.enum", "should be a list of values")
        return {"enum": schema["enum"]}

    def _object(self, schema: Schema, where: str, depth: int) -> Schema:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict):
            raise RequestError(f"{where}.properties", "should be an object")
        if not isinstance(required, list):
            raise RequestError(f"{where}.required", "should be a list of names")
        for name in required:
            if not isinstance(name, str) or name not in properties:
                raise RequestError(f"{where}.required", f"{name!r} is not among the properties")
        others = schema.get("additionalProperties", True)
        if properties:
            if isinstance(others, dict):
                raise RequestError(f"{where}.additionalProperties", "a schema here only without properties")
            read = {key: self.read(one, f"{where}.properties.{key}", depth + 1) for key, one in properties.items()}
            return {"properties": read, "required": required, "additionalProperties": False}
        if isinstance(others, dict):
            return {"additionalProperties": self.read(others, f"{where}.additionalProperties", depth + 1)}
        return {} if others else {"additionalProperties": False}

    def _array(self, schema: Schema, where: str, depth: int) -> Schema:
        if "prefixItems" in schema:
            self._only(schema, {"type", "prefixItems"}, where)
            items = schema["prefixItems"]
            if not isinstance(items, list) or not items:
                raise RequestError(f"{where}.prefixItems", "should be a list of schemas")
            return {
                "prefixItems": [self.read(one, f"{where}.prefixItems[{i}]", depth + 1) for i, one in enumerate(items)]
            }
        items = self.read(schema.get("items", {}), f"{where}.items", depth + 1)
        return {"items": items, **self._range(schema, "minItems", "maxItems", where)}

    def _string(self, schema: Schema, where: str, depth: int) -> Schema:
        if "pattern" in schema:
            self._only(schema, {"type", "pattern"}, where)
            if not _is_safe_pattern(schema["pattern"]):
                raise RequestError(
                    f"{where}.pattern",
                    "should be ^…$ of letters, digits, some signs, [a-z], groups and repetitions, "
                    "| only in groups, no backslash and no dot",
                )
            return {"pattern": schema["pattern"]}
        if "format" in schema:
            self._only(schema, {"type", "format"}, where)
            if schema["format"] not in _FORMATS:
                raise RequestError(f"{where}.format", f"should be one of {', '.join(_FORMATS)}")
            return {"format": schema["format"]}
        return self._range(schema, "minLength", "maxLength", where)

    @staticmethod
    def _range(schema: Schema, least: str, most: str, where: str) -> Schema:
        found: Schema = {}
        for key in (least, most):
            count = schema.get(key)
            if count is None:
                continue
            if type(count) is not int or not found.get(least, 0) <= count <= _MAX_COUNT:
                raise RequestError(f"{where}.{key}", f"should be from {found.get(least, 0)} to {_MAX_COUNT}")
            found[key] = count
        return found


def _is_safe_pattern(pattern: Any) -> bool:
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        return False
    depth = 0
    for character in re.sub(r"\[[^\]]*\]", "", pattern):
        depth += (character == "(") - (character == ")")
        if depth < 0 or (character == "|" and not depth):
            return False
    return depth == 0


class _Converter(_bindings.SchemaConverter):  # type: ignore[misc] # the bindings are untyped
    """The bindings' converter, with its own texts, references, strings and repetitions."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        self._definitions = definitions
        self._names: dict[str, str] = {}

    def visit(self, schema: Schema, name: str) -> str:
        rule_name = name + "-" if name in _bindings.RESERVED_NAMES else name or "root"
        if schema.get("type") == "array" and "items" in schema:
            item = self.visit(schema["items"], f"{name}-item" if name else "item")
            return str(self._add_rule(rule_name, _array_rule(item, schema.get("minItems", 0), schema.get("maxItems"))))
        if "minLength" in schema or "maxLength" in schema:
            character = self._add_primitive("char", _bindings.PRIMITIVE_RULES["char"])
            least, most = schema.get("minLength", 0), schema.get("maxLength", "")
            return str(self._add_rule(rule_name, rf'"\"" {character}{{{least},{most}}} "\"" space'))
        return str(super().visit(schema, name))

    def _format_literal(self, literal: str) -> str:
        """Both callers hand over JSON; ours is as readable as JSON allows, and quoted as a grammar needs it."""
        text = json.dumps(json.loads(literal), ensure_ascii=False)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def _add_primitive(self, name: str, rule: Any) -> str:
        if rule is _bindings.PRIMITIVE_RULES["char"]:
            rule = _bindings.BuiltinRule(_CHARACTER, [])
        return str(super()._add_primitive(name, rule))

    def _resolve_ref(self, ref: str) -> str:
        if ref not in self._names:
            name = f"ref{len(self._names)}"
            while name in self._rules:
                name += "-"
            self._names[ref] = name
            self._rules[name] = ""  # nothing else may take this name while the definition is visited
            self._rules[name] = self.visit(self._definitions[ref], name)
        return self._names[ref]


def _array_rule(item: str, least: int, most: int | None) -> str:
    if most == 0:
        return '"[" space "]" space'
    more = f'("," space {item}){{{max(least - 1, 0)},{"" if most is None else most - 1}}}'
    return f'"[" space {item} {more} "]" space' if least else f'"[" space ({item} {more})? "]" space'
