"""What cannot be meant is refused, and the field named."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from runtime import RequestError, Sampling


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", None),
        ("temperature", "warm"),
        ("temperature", nan),
        ("temperature", -1),
        ("temperature", True),
        ("top_k", 1.5),
        ("top_k", 10**30),
        ("top_p", 0),
        ("top_p", 1.5),
        ("min_p", inf),
        ("typical_p", "x"),
        ("seed", None),
        ("seed", -1),
        ("seed", 2**70),
        ("seed", 2**32 - 1),
        ("repeat_penalty", 0),
        ("repeat_last_n", -5),
        ("frequency_penalty", 3),
        ("presence_penalty", nan),
        ("logit_bias", {42: 1}),
        ("logit_bias", ((1, nan),)),
        ("logit_bias", (("a", 1),)),
        ("logit_bias", 3),
        ("grammar", b"root ::= x"),
        ("stop", None),
        ("stop", ("",)),
        ("stop", (3,)),
        ("stop", "text"),
        ("top_logprobs", 21),
        ("top_logprobs", -3),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(name, value):
    with pytest.raises(RequestError, match=f"^{name}: should be a"):
        Sampling(**{name: value})


def test_what_numpy_computes_is_a_number_and_a_token_may_be_ruled_out():
    assert Sampling(temperature=np.float32(0.5), top_p=np.float64(1), logit_bias=((3, -inf),)).temperature == 0.5
