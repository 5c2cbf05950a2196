"""How many random cases are tried: always the same ones in the tests, others and more of them on demand.

SPANPARSE_FUZZ=20 tries twenty times as many, chosen anew each time.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

DEEPER: Final = "SPANPARSE_FUZZ"


def cases(count: int) -> settings:
    """Settings for `count` cases, or as many times that as the environment asks for."""
    deeper = os.environ.get(DEEPER)
    return settings(
        max_examples=count * int(deeper or 1),
        derandomize=deeper is None,
        database=None,
        deadline=None,
        # A macro or two makes a large draw; slow cases are what the limits are for.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
