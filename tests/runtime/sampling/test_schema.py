"""JSON schemas as grammars: whatever an answer looks like, it obeys the schema."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from runtime.errors import RequestError
from runtime.sampling import Answer, Sampler, Sampling
from runtime.sampling.schema import schema_grammar

SCHEMAS = [
    {},
    {"type": "object"},
    {"type": "string", "minLength": 2, "maxLength": 300},
    {"type": ["integer", "null"]},
    {"type": "number"},
    {"enum": ['a"b', "line\nbreak", "é😀", "back\\slash", 3, None]},
    {"const": {"a b": [1, "\t"]}},
    {"type": "string", "pattern": "^(ab|cd)+[0-9]{2,4}-x?$"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 200},
    {"type": "array", "items": {}, "maxItems": 0},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "additionalProperties": False},
    {
        "title": "Boat",
        "type": "object",
        "properties": {
            'na"me': {"type": "string", "description": "a name"},
            "string": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "any": {},
            "port": {"$ref": "#/$defs/port"},
        },
        "required": ['na"me', "port"],
        "$defs": {
            "port": {"type": "object", "properties": {"port": {"$ref": "#/$defs/n~1a"}}},
            "n/a": {"enum": [1, 2]},
        },
    },
    {
        "properties": {
            "a": {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]},
            "b": {"$ref": "#/$defs/a"},
        },
        "required": ["a", "b"],
        "$defs": {"a": {"type": "boolean"}},
    },
    {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "value": {"oneOf": [{"type": "boolean"}]}},
        "required": ["next", "value"],
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_every_finished_answer_obeys_the_schema(schema, branch):
    """A hot model chooses anything that is allowed, though it likes what closes something."""
    grammar, model = schema_grammar(schema), branch.context.model
    liked = [token for token in range(model.n_vocab) if model.piece(token) in (b'"', b"}", b"]")]
    ends = [token for token in range(model.n_vocab) if model.ends_generation(token)]
    finished = 0
    for seed in range(5):
        sampling = Sampling(
            temperature=3, seed=seed, grammar=grammar, logit_bias=tuple((token, 3.0) for token in liked + ends)
        )
        answer = Answer(model, sampling, 300)
        with Sampler(model, sampling) as sampler:
            while answer.finish is None:
                answer.add(*sampler.sample(branch.context.logits()))
        if answer.finish == "stop":
            Draft202012Validator(schema).validate(json.loads(answer.result().text))
            finished += 1
    assert finished


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "schema: should be an object"),
        ({"type": "integer", "minimum": 3}, "schema.minimum: a grammar cannot keep this"),
        ({"type": None}, "schema.type: should be one of object, array"),
        ({"type": "text"}, "schema.type: should be one of object, array"),
        ({"type": {}}, "schema.type: should be one of"),
        ({"allOf": [{}]}, "schema.allOf: a grammar cannot keep this"),
        (
            {"properties": {"a": {"type": "string", "format": "email"}}},
            "schema.properties.a.format: should be one of date",
        ),
        ({"properties": {"a": True}}, "schema.properties.a: should be an object"),
        ({"properties": {}, "required": ["a"]}, "schema.required: 'a' is not among the properties"),
        ({"properties": {"a": {}}, "required": [[]]}, r"schema.required: \[\] is not among"),
        ({"properties": {"a": {}}, "additionalProperties": {}}, "schema.additionalProperties: a schema here only"),
        ({"items": {"$ref": "other.json"}}, r"schema.items.\$ref: should point into this schema"),
        ({"items": {"$ref": "#/$defs/a"}}, r"schema.items.\$ref: #/\$defs/a is not in the schema"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "schema: makes a grammar that is refused: left rec",
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"x": 1}}}, r"schema.\$defs.a.x: a grammar cannot keep"),
        ({"anyOf": []}, "schema.anyOf: should be a list of schemas"),
        ({"anyOf": [{"type": "null"}, {"not": {}}]}, r"schema.anyOf\[1\].not: a grammar cannot keep"),
        ({"anyOf": [{}], "minItems": 3}, "schema.minItems: a grammar cannot keep this, or not beside the rest"),
        ({"enum": []}, "schema.enum: should be a list of values"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "schema.maxItems: should be from 3 to 2000"),
        ({"type": "string", "maxLength": 10**9}, "schema.maxLength: should be from 0 to 2000"),
        ({"type": "string", "minLength": True}, "schema.minLength: should be from 0 to 2000"),
        ({"type": "string", "pattern": "a"}, r"schema.pattern: should be \^…\$"),
        ({"type": "string", "pattern": "^.$"}, "schema.pattern: should be"),
        ({"type": "string", "pattern": "^a|b$"}, "schema.pattern: should be"),
        ({"type": "string", "pattern": "^[ -~]$"}, "schema.pattern: should be"),
        ({"type": "string", "pattern": "^\\d$"}, "schema.pattern: should be"),
        ({"type": "string", "pattern": "^(a$"}, "schema.pattern: should be"),
        ({"prefixItems": [{}], "items": {}}, "schema.items: a grammar cannot keep this"),
        ({"enum": ["\ud800"]}, "schema: makes a grammar that is refused: holds a NUL or half"),
    ],
)
def test_what_a_grammar_cannot_keep_is_refused_by_its_place(schema, message):
    with pytest.raises(RequestError, match="^" + message) as caught:
        schema_grammar(schema)
    assert "\n" not in str(caught.value)


def test_a_schema_nested_too_deep_is_refused():
    schema = {}
    for _ in range(100):
        schema = {"items": schema}
    with pytest.raises(RequestError, match="nested more than 64 deep"):
        schema_grammar(schema)
