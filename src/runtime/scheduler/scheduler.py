"""The thread that owns a memory, and the queue of what it is asked to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar, final

from planner.errors import PlannerError
from runtime.attachment import MediaStretch
from runtime.closing import Closing
from runtime.completion import Completion
from runtime.errors import DecodeError, EngineClosed, RunError
from runtime.llama import Stretch
from runtime.observer import Observer
from runtime.rates import Rates
from runtime.report import Report
from runtime.scheduler.call import Call
from runtime.scheduler.task import Task
from runtime.scheduler.turn import Share, equally_long, next_turn
from runtime.tree.job import Job
from runtime.tree.tree import Tree

_T = TypeVar("_T")
_SHORTEST_TIMEOUT = 0.001  # seconds
_NO_ROOM = 1  # what `llama_decode` returns when it finds no cells


@final
class _Errand:
    """Something to be done on the thread, between two turns; if `idle`, once no request is in flight."""

    def __init__(self, action: Callable[[], Any], idle: bool) -> None:
        self.idle = idle
        self.future: Future[Any] = Future()
        self._action = action

    def run(self) -> None:
        try:
            self.future.set_result(self._action())
        except Exception as error:  # noqa: BLE001 it is for whoever asked
            self.future.set_exception(error)


@final
class Scheduler(Closing):
    """Serves up to `parallel` requests at once, the others wait in the order in which they came.

    Each turn evaluates what `next_turn` chooses, in one decode, then saves what the plans want saved, then chooses
    tokens. From now on only this thread may use the tree and its context. `submit` and `run` may be called from any
    thread but this one. After an error that nobody foresaw, the books of the tree being what they may, nothing more is
    answered: everything ends with `EngineClosed`, which names it.
    """

    def __init__(self, tree: Tree, *, parallel: int, observer: Observer) -> None:
        self._tree = tree
        self._observer = observer
        self._context = tree.context
        self._parallel = parallel
        self._inbox: SimpleQueue[Call | _Errand | None] = SimpleQueue()
        self._waiting: deque[Call | _Errand] = deque()
        self._tasks: list[Task] = []
        self._rates = Rates()
        self._order = count(1)
        self._full = False
        self._closed = False
        self._cause: BaseException | None = None
        self._lock = Lock()
        # A program that ends without closing is not held up.
        self._thread = Thread(target=self._serve, name="spanparse-scheduler", daemon=True)
        self._thread.start()

    def submit(self, call: Call) -> None:
        """Put a request into the queue. Raises `EngineClosed`."""
        self._put(call)

    def run(self, action: Callable[[], _T], *, idle: bool = False) -> _T:
        """Do something on the thread between two turns and give back what it gives; with `idle` when nothing is in
        flight and everything asked before has been answered.

        Raises what `action` raises, and `EngineClosed`.
        """
        errand = _Errand(action, idle)
        self._put(errand)
        result: _T = errand.future.result()
        return result

    def close(self) -> None:
        """End every request with `EngineClosed`, and the thread. Closing twice is fine."""
        with self._lock:
            self._closed = True
        self._inbox.put(None)
        self._thread.join()

    def _put(self, item: Call | _Errand) -> None:
        with self._lock:
            if self._closed:
                raise EngineClosed(self._cause)
            self._inbox.put(item)

    def _serve(self) -> None:
        try:
            while self._receive():
                self._end_cancelled()
                self._begin_waiting()
                turn = next_turn(self._tasks, self._tree.room.for_decode, self._context.n_ubatch)
                for batch in self._batches(turn):
                    self._evaluate(batch)
        except BaseException as error:  # noqa: BLE001 it is told to whoever asks from now on
            self._cause = error
            self._observer.ended(error)
        finally:
            with self._lock:
                self._closed = True
            self._abort()

    def _receive(self) -> bool:
        """Take what has come, waiting for it if there is nothing to do; False when it is time to end."""
        idle = not self._tasks and not self._waiting
        if idle:
            self._write_states()
        while not self._closed:
            try:
                item = self._inbox.get(block=idle)
            except Empty:
                return True
            if item is not None:
                idle = False
                if isinstance(item, _Errand) and not item.idle:
                    item.run()
                else:
                    self._waiting.append(item)
        return False

    def _write_states(self) -> None:
        """Nothing is to be done: states that only memory holds go to the slower tiers, until something comes."""
        if self._tree.archive is None:
            return
        for _ in self._tree.archive.store.flushing():
            if not self._inbox.empty():
                return
        self._observer.stored(self._tree.archive.store.status)

    def _end_cancelled(self) -> None:
        for task in [task for task in self._tasks if task.cancelled]:
            self._end(task)
        for call in [item for item in self._waiting if isinstance(item, Call) and item.cancelled]:
            self._waiting.remove(call)
            completion = _never_begun(call, self._tree)
            self._observer.answered(completion, call.request.id)
            call.end(completion)

    def _begin_waiting(self) -> None:
        """While an answer is being generated one a turn: to plan and to restore takes time, too."""
        while self._waiting and not self._full:
            first = self._waiting[0]
            if isinstance(first, _Errand):
                if self._tasks:
                    return
                first.run()
            elif len(self._tasks) == self._parallel or not self._begin(first):
                return
            self._waiting.popleft()
            if any(task.prefilled for task in self._tasks):
                return

    def _begin(self, call: Call) -> bool:
        """False if it must wait for the room that others have."""
        with self._forwarded(call):
            job = self._start(call)
            if job is None:
                assert self._tasks, "an empty memory has no room"
                self._full = True
                return False
            served = min((task.served for task in self._tasks if not task.prefilled), default=0)
            try:
                task = Task(call, job, self._context, served)
            except Exception as error:  # noqa: BLE001 it is for whoever asked, what is in the tree is not touched by it
                job.finish(cancelled=True)
                self._refuse(call, error)
                return True
            self._tasks.append(task)
            if job.loaded is not None and job.loaded.logits is not None:
                # Nothing of the prompt is left to be evaluated.
                self._choose(task, partial(task.choose_by, job.loaded.logits))
        return True

    def _start(self, call: Call) -> Job | None:
        left = call.seconds_left
        return self._tree.begin(
            call.prompt,
            max_tokens=call.request.max_tokens,
            clock=call.clock,
            timeout=None if left is None else max(left, _SHORTEST_TIMEOUT),
            # Measured ones differ from run to run, and so would plans; without a timeout nothing hangs on them.
            costs=None if left is None else self._rates.costs(),
        )

    def _batches(self, turn: list[Share]) -> list[list[Share]]:
        text = [share for share in turn if not isinstance(share.stretch, MediaStretch)]
        media = [[share] for share in turn if isinstance(share.stretch, MediaStretch)]
        if self._tree.memory.kind == "swa+recurrent":
            return [*equally_long(text), *media]
        return [*([text] if text else []), *media]

    def _evaluate(self, batch: list[Share]) -> None:
        try:
            rows = iter(self._decode(batch))
        except Exception as error:  # noqa: BLE001 it is for whoever asked
            self._undo(batch, error)
            return
        choices = []
        for task, stretch in batch:
            task.last_served = next(self._order)
            if stretch.logits:
                choices.append((task, next(rows)))
            with self._contained(task):
                task.evaluated(stretch)
        for task, row in choices:
            if task in self._tasks:
                self._choose(task, partial(task.choose, row))

    def _choose(self, task: Task, choose: Callable[[], None]) -> None:
        with self._contained(task):
            choose()
        if task.ended and task in self._tasks:
            self._end(task)

    def _decode(self, batch: list[Share]) -> tuple[int, ...]:
        with ExitStack() as stack:
            for task, _ in batch:
                stack.enter_context(task.call.clock.phase("decode" if task.prefilled else "prefill"))
            first = batch[0].stretch
            if isinstance(first, MediaStretch):
                rows: tuple[int, ...] = ()
                first.chunk.evaluate(self._context, first.position, first.sequence, self._tree.n_batch)
            else:
                rows = self._decode_text([share.stretch for share in batch if isinstance(share.stretch, Stretch)])
            # So that the next phase does not wait for this one, and a request can be cancelled after it.
            self._context.synchronize()
        return rows

    def _decode_text(self, stretches: list[Stretch]) -> tuple[int, ...]:
        try:
            return self._context.decode(*stretches)
        except DecodeError as error:
            # The books of cells were wrong, or llama.cpp needs more than they know: make all the room there is.
            if error.code != _NO_ROOM or not self._tree.relieve():
                raise
            return self._context.decode(*stretches)

    def _undo(self, batch: list[Share], error: Exception) -> None:
        """After a failed decode all go back, and try again one by one; who was alone has failed."""
        for task, _ in batch:
            task.job.abandon()
            if task.alone or len(batch) == 1:
                self._fail(task, error)
            else:
                task.alone = True

    @contextmanager
    def _contained(self, task: Task) -> Iterator[None]:
        """What goes wrong inside ends this task alone."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 it is for whoever asked
            self._fail(task, error)

    @contextmanager
    def _forwarded(self, call: Call) -> Iterator[None]:
        """What goes wrong inside is the call's result, unless nobody foresaw it."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, RunError | PlannerError):
                raise
            self._refuse(call, error)

    def _refuse(self, call: Call, error: Exception) -> None:
        self._observer.failed(error, call.request.id)
        call.end(error)

    def _fail(self, task: Task, error: Exception) -> None:
        self._remove(task)
        self._observer.failed(error, task.call.request.id)
        try:
            task.job.finish(cancelled=True)
        finally:
            task.call.end(error)
        self._tree.put_away(task.job)

    def _end(self, task: Task) -> None:
        completion = task.completion()
        self._remove(task)
        self._rates.observe(completion.report)
        self._observer.answered(completion, task.call.request.id)
        task.call.end(completion)
        self._tree.put_away(task.job)

    def _remove(self, task: Task) -> None:
        self._tasks.remove(task)
        self._full = False
        task.close()

    def _abort(self) -> None:
        """Nothing more will be answered."""
        for task in self._tasks:
            task.close()
            self._turn_away(task.call)
        while not self._inbox.empty():
            if (item := self._inbox.get()) is not None:
                self._waiting.append(item)
        for item in self._waiting:
            if not isinstance(item, Call):
                item.future.set_exception(EngineClosed(self._cause))
            elif not item.future.done():
                self._turn_away(item)

    def _turn_away(self, call: Call) -> None:
        closed = EngineClosed(self._cause)
        self._observer.failed(closed, call.request.id)
        call.end(closed)


def _never_begun(call: Call, tree: Tree) -> Completion:
    """Of a request that was cancelled while it waited."""
    n = call.prompt.tokens.size
    report = Report(
        prompt_tokens=n,
        restored=None,
        evaluated=0,
        reused=0,
        ideal=max(1, n - tree.history.shared(call.prompt.tokens).prompted),
        excess=(),
        breaks=0,
        saves=0,
        bytes=tree.store.bytes,
        seconds=call.clock.seconds(),
    )
    ids = tuple(call.prompt.tokens.tolist())
    return Completion(report, "", "cancelled", ids, (), call.request.sampling)
