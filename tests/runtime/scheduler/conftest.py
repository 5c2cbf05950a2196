"""What tests of several requests at once have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread

import pytest

from runtime.engine import Engine
from runtime.llama import Context, Stretch

Held = Callable[[Engine], AbstractContextManager[None]]


@pytest.fixture
def held() -> Held:
    """Keeps an engine between two turns, so that what is asked meanwhile begins with the same one."""

    @contextmanager
    def hold(engine: Engine) -> Iterator[None]:
        reached, released = Event(), Event()

        def wait() -> None:
            reached.set()
            released.wait()

        thread = Thread(target=engine.scheduler.run, args=(wait,))
        thread.start()
        reached.wait()
        try:
            yield
        finally:
            released.set()
            thread.join()

    return hold


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, int]]:
    """Every decode from now on: how many tokens of which sequence."""
    found: list[dict[int, int]] = []
    decode = Context.decode

    def recorded(self: Context, *stretches: Stretch) -> tuple[int, ...]:
        rows = decode(self, *stretches)
        found.append({stretch.sequence: stretch.tokens.size for stretch in stretches})
        return rows

    monkeypatch.setattr(Context, "decode", recorded)
    return found
