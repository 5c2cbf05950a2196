from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

import planner
from planner import (
    Budget,
    Candidate,
    Costs,
    Existing,
    Likely,
    PlanRequest,
    PlanRequestError,
    compare,
    json_schema,
    plan,
    read_request,
    write_plan,
)
from planner.schema import PlanDocument, RequestDocument

FULL = {
    "schema_version": 1,
    "prompt_tokens": 1000,
    "candidates": [{"offset": 300, "kind": "system_end", "stable": True, "message": 1}, {"offset": 400}],
    "common_prefix": 350,
    "live": 350,
    "existing": [{"offset": 300, "bytes": 10, "age": 2, "identity": "a"}],
    "forbidden": [{"begin": 500, "end": 600}],
    "wanted": [250],
    "likely": [{"offset": 260, "weight": 0.5}],
    "block": 10,
    "memory": "swa",
    "window": 128,
    "budget": {"checkpoints": 4, "bytes": 100},
    "state_bytes": [{"tokens": 0, "bytes": 10}, {"tokens": 1000, "bytes": 20}],
    "costs": {"seconds_per_token": 0.001, "per_break": 0.1, "per_save": 0, "per_restore": 0.2},
    "n_batch": 256,
    "n_ubatch": 64,
    "timeout": 90.0,
    "policy": "barriers",
    "min_step": 0,
    "every_n": 100,
}


def test_every_field_of_a_request_is_read() -> None:
    assert read_request(json.dumps(FULL)) == PlanRequest(
        1000,
        candidates=(Candidate(300, "system_end", True, 1), Candidate(400)),
        common_prefix=350,
        live=350,
        existing=(Existing(300, 10, 2, "a"),),
        forbidden=((500, 600),),
        wanted=(250,),
        likely=(Likely(260, 0.5),),
        block=10,
        memory="swa",
        window=128,
        budget=Budget(4, 100),
        state_bytes=((0, 10), (1000, 20)),
        costs=Costs(0.001, 0.1, 0, 0.2),
        n_batch=256,
        n_ubatch=64,
        timeout=90.0,
        policy="barriers",
        min_step=0,
        every_n=100,
    )


def test_what_a_request_leaves_out_has_the_defaults_of_python() -> None:
    assert read_request('{"prompt_tokens": 7}') == PlanRequest(7)


def test_the_document_has_the_fields_of_the_request() -> None:
    assert [*RequestDocument.model_fields] == ["schema_version", *(f.name for f in dataclasses.fields(PlanRequest))]


def test_the_document_has_the_fields_of_the_plan() -> None:
    worked_out = [f.name for f in dataclasses.fields(planner.Comparison)]
    fields = [f.name for f in dataclasses.fields(planner.Plan) if f.name != "expected_returns"]
    assert [*PlanDocument.model_fields] == ["schema_version", *fields, *worked_out]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("prompt_tokens", {"prompt_tokens": "1000"}),
        ("schema_version", {"schema_version": 2}),
        ("candidates[1].offset", {"candidates": [{"offset": 1}, {"kind": "custom"}]}),
        ("candidates[0].kind", {"candidates": [{"offset": 1, "kind": "elsewhere"}]}),
        ("candidates[0].offset", {"candidates": [{"offset": 2000}]}),
        ("existing[0].bites", {"existing": [{"offset": 1, "bites": 2}]}),
        ("budget.checkpoints", {"budget": {"checkpoints": -1}}),
        ("costs.per_break", {"costs": {"per_break": -1}}),
        ("state_bytes[1].tokens", {"state_bytes": [{"tokens": 5, "bytes": 1}, {"tokens": 5, "bytes": 1}]}),
        ("timeout", {"timeout": 0}),
        ("forbidden[0].end", {"forbidden": [{"begin": 5, "end": 4}]}),
        ("polcy", {"polcy": "none"}),
    ],
)
def test_what_is_wrong_in_a_document_is_named_by_its_field(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(PlanRequestError) as caught:
        read_request(json.dumps(FULL | change))
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"prompt_tokens": 1', b"\xff\xfe"])
def test_text_that_is_no_document_is_refused_in_one_line(text: str | bytes) -> None:
    with pytest.raises(PlanRequestError) as caught:
        read_request(text)
    assert caught.value.field == "request"
    assert "\n" not in str(caught.value)


def written_plan(request: PlanRequest) -> dict[str, Any]:
    made = plan(request)
    document: dict[str, Any] = json.loads(write_plan(made, compare(request, made)))
    return document


def test_a_plan_is_written_with_the_keys_of_the_contract() -> None:
    request = PlanRequest(
        1000, (Candidate(400, "system_end"),), common_prefix=300, existing=(Existing(100), Existing(500))
    )
    written = written_plan(request)
    assert written["schema_version"] == 1
    assert written.keys() >= {
        "restore",
        "steps",
        "evict",
        "expected_replay_tokens",
        "optimal_replay_tokens",
        "expected_replay_seconds",
        "baselines",
    }
    assert written["restore"].keys() >= {"offset", "why"}
    assert written["steps"][0].keys() >= {"begin", "end", "save", "kind", "reason"}
    assert written["evict"][0].keys() >= {"offset", "reason"}
    assert written["baselines"].keys() == set(planner.POLICIES) - {"adaptive"}


def test_a_plan_hands_back_what_the_caller_calls_a_checkpoint() -> None:
    existing = (Existing(100, identity="first"), Existing(500, identity="second"))
    written = written_plan(PlanRequest(1000, common_prefix=300, existing=existing))
    assert written["restore"]["identity"] == "first"
    assert [eviction["identity"] for eviction in written["evict"]] == ["second"]


def test_a_plan_without_a_restore_says_null() -> None:
    assert written_plan(PlanRequest(10))["restore"] is None


def test_the_schemas_describe_what_is_read_and_written() -> None:
    assert json_schema()["properties"].keys() == FULL.keys()
    assert json_schema()["required"] == ["prompt_tokens"]
    assert "steps" in json_schema("plan")["required"]


def test_pydantic_is_loaded_by_json_and_not_by_planning() -> None:
    code = (
        "import sys, planner; request = planner.PlanRequest(10); made = planner.plan(request); "
        "found = planner.compare(request, made); made.explain(found); before = 'pydantic' in sys.modules; "
        "planner.write_plan(made, found); print(before, 'pydantic' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]
