"""The `barriers` policy beside the server that it stands for: prompt for prompt, as many tokens evaluated."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from planner import Budget, Candidate, Costs, Existing, PlanRequest, plan
from runtime.tiny.cache import ensure_model

xllamacpp = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (extra dev)")

CHECKPOINTS, BATCH, UBATCH, MIN_STEP = 3, 128, 32, 100


class Server:
    """llama.cpp's own, with few checkpoints and small batches, so that all its rules come into play."""

    def __init__(self) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(ensure_model("hybrid"))
        parameters.port = parameters.verbosity = parameters.cache_ram_mib = 0
        parameters.n_ctx = 4096
        parameters.n_parallel = parameters.cpuparams.n_threads = 1
        parameters.n_batch, parameters.n_ubatch = BATCH, UBATCH
        parameters.n_ctx_checkpoints, parameters.checkpoint_min_step = CHECKPOINTS, MIN_STEP
        parameters.warmup = False
        self._server = xllamacpp.Server(parameters)
        self._address = urlsplit(self._server.listening_address).netloc

    def evaluated(self, prompt: list[int]) -> int:
        """How many of the prompt's tokens it evaluates."""
        count: int = self._post("/completion", {"prompt": prompt, "n_predict": 1})["timings"]["prompt_n"]
        return count

    def evaluated_chat(self, messages: list[dict[str, str]]) -> int:
        """The same of a conversation, whose messages it knows."""
        request = {"messages": messages, "max_tokens": 1}
        count: int = self._post("/v1/chat/completions", request)["timings"]["prompt_n"]
        return count

    def prompt(self, messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
        """A conversation's tokens, and where its user messages begin."""
        tokens = self._tokens(self._post("/apply-template", {"messages": messages})["prompt"])
        mark = self._tokens("<|im_start|>user")
        return tokens, [i for i in range(len(tokens)) if tokens[i : i + len(mark)] == mark]

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._post("/tokenize", {"content": text, "parse_special": True})["tokens"]
        return tokens

    def _post(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self._address)
        try:
            connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


def following(pick: random.Random, held: list[int]) -> list[int]:
    """A prompt that goes on, goes back a little or a lot, or is the same again."""

    def new(count: int) -> list[int]:
        return [pick.randint(500, 900) for _ in range(count)]

    kind = pick.random()
    if kind < 0.6:
        return held + new(pick.choice([5, 30, 70, 200]))
    if kind < 0.8:
        return held[: max(100, len(held) - pick.choice([1, 3, 5, 40, 100, 300]))] + new(pick.choice([5, 100]))
    if kind < 0.9:
        return held[: pick.randint(100, len(held))] + new(50)
    return list(held)


def common(left: list[int], right: list[int]) -> int:
    shortest = min(len(left), len(right))
    return next((i for i in range(shortest) if left[i] != right[i]), shortest)


class Store:
    """What the server should hold, by the policy."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.ages: dict[int, int] = {}

    def evaluated(self, prompt: list[int], users: Sequence[int] = ()) -> int:
        """Plan a prompt and keep what the plan keeps; how many tokens it evaluates."""
        request = PlanRequest(
            len(prompt),
            tuple(Candidate(offset, "user_start") for offset in users if offset),
            common_prefix=common(self.held, prompt),
            live=len(self.held) or None,
            existing=tuple(Existing(offset, age=age) for offset, age in self.ages.items()),
            budget=Budget(CHECKPOINTS),
            n_batch=BATCH,
            n_ubatch=UBATCH,
            min_step=MIN_STEP,
            policy="barriers",
            costs=Costs(per_restore=0.0),
        )
        made = plan(request)
        self.ages = {offset: 1 if offset in made.saves else self.ages[offset] + 1 for offset in made.kept}
        self.held = prompt
        return sum(step.end - step.begin for step in made.steps)

    def misleads(self, prompt: list[int]) -> bool:
        """The server takes a state with one token more than is shared for usable: no policy, a mistake."""
        return common(self.held, prompt) + 1 in self.ages


@pytest.mark.parametrize("seed", range(8))
def test_of_tokens_the_server_evaluates_what_its_policy_says(server: Server, seed: int) -> None:
    pick, store = random.Random(seed), Store()
    prompt = [pick.randint(500, 900) for _ in range(pick.randint(100, 400))]
    for _ in range(20):
        assert server.evaluated(prompt) == store.evaluated(prompt)
        while store.misleads(prompt := following(pick, store.held)):
            pass


def words(pick: random.Random, most: int) -> str:
    return " ".join(pick.choice(["ferry", "harbour", "tide", "ticket", "north", "late"]) for _ in range(most))


@pytest.mark.parametrize("seed", range(5))
def test_of_conversations_the_server_evaluates_what_its_policy_says(server: Server, seed: int) -> None:
    pick, store = random.Random(seed), Store()
    messages = [{"role": "system", "content": f"{seed} " + words(pick, 150)}]
    for _ in range(14):
        if len(messages) > 5 and pick.random() < 0.25:
            # An earlier message of the user is edited, what followed it is gone.
            del messages[2 * pick.randrange(len(messages) // 2) + 1 :]
        messages.append({"role": "user", "content": words(pick, pick.choice([5, 40, 120]))})
        prompt, users = server.prompt(messages)
        if store.misleads(prompt):
            break
        assert server.evaluated_chat(messages) == store.evaluated(prompt, users)
        messages.append({"role": "assistant", "content": words(pick, pick.choice([5, 40, 120]))})
