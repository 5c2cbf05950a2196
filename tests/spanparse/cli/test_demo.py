"""The demo itself runs in the test of the README, which shows what it prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spanparse.cli import comparison
from spanparse.cli.comparison import Result, Turn, compare, requests_of, time_to_first_token
from spanparse.conversation import Conversation

Run = Callable[..., Any]
USER = {"role": "user", "content": "Hello"}
TOOL = {"role": "tool", "content": "4"}
ANSWER = {"role": "assistant", "content": "Hi"}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces the play by its results."""

    def replace(*results: Result) -> None:
        monkeypatch.setattr(comparison, "compare", lambda *_: list(results))

    return replace


def result(policy: str, *evaluated: int, identical: bool = True) -> Result:
    return Result(policy, tuple(Turn(100, tokens, 50, 0.25) for tokens in evaluated), identical)


def test_the_json_has_every_key_of_the_contract(cli: Run, played: Run) -> None:
    played(result("none", 100, 100), result("adaptive", 50, 60))
    found = cli("demo", "--json")
    assert found.code == 0
    assert found.json["schema_version"] == 1
    assert found.json["model"] == "hybrid"
    adaptive = found.json["results"][1]
    assert adaptive["turns"][1].items() >= {"evaluated": 60, "ideal": 50, "seconds": 0.25}.items()
    del adaptive["turns"]
    assert adaptive == {"policy": "adaptive", "evaluated": 110, "ideal": 100, "ratio": 1.1, "identical": True}


def test_an_answer_that_differs_is_a_finding(cli: Run, played: Run) -> None:
    played(result("none", 100), result("adaptive", 50, identical=False))
    found = cli("demo")
    assert found.code == 1
    assert "DIFFERS" in found.out
    assert cli("demo", "--json").code == 1


def test_there_is_a_request_before_each_assistant_message_and_one_for_what_is_left_open() -> None:
    messages = [USER, ANSWER, TOOL, ANSWER, USER]
    assert [len(request.messages) for request in requests_of(Conversation(messages))] == [1, 3, 5]
    assert [len(request.messages) for request in requests_of(Conversation(messages[:4]))] == [1, 3]


def test_the_time_to_the_first_token_is_all_but_the_decoding() -> None:
    assert time_to_first_token({"render": 1.0, "prefill": 2.0, "decode": 4.0}) == 3.0


def test_every_policy_is_played_on_a_real_engine_and_compared_with_nothing_reused() -> None:
    pytest.importorskip("llama_cpp", reason="playing needs the [runtime] extra")
    from runtime.tiny import ensure_model

    requests = requests_of(Conversation([USER, ANSWER, USER, ANSWER, USER]))
    told: list[str] = []
    none, adaptive = compare(ensure_model("hybrid"), requests, ["none", "adaptive"], told.append)
    assert (none.identical, adaptive.identical) == (True, True)
    assert none.ideal == adaptive.ideal <= adaptive.evaluated < none.evaluated
    assert len(told) == 3 * len(requests)


def test_states_that_are_restored_wrongly_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_cpp", reason="playing needs the [runtime] extra")
    np = pytest.importorskip("numpy", reason="playing needs the [runtime] extra")
    from runtime.llama import Context
    from runtime.tiny import ensure_model

    genuine = Context.save_state

    def forged(self: Context, sequence: int, *, into: Any) -> Any:
        state = genuine(self, sequence, into=into)
        # The end of it is the recurrent state of the last layer; what stands before has to stay readable.
        numbers = state[-(state.size // 32 * 4) :].view(np.float32)
        numbers *= -1
        return state

    monkeypatch.setattr(Context, "save_state", forged)
    requests = requests_of(Conversation([USER, ANSWER, USER, ANSWER, USER]))
    none, adaptive = compare(ensure_model("hybrid"), requests, ["none", "adaptive"], lambda _: None)
    assert (none.identical, adaptive.identical) == (True, False)
