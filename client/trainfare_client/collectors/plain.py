"""Records a block of code, or each call of a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from trainfare_client.collectors.outcomes import status_of
from trainfare_client.collectors.recording import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
    from types import TracebackType

    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class RecordedRun:
    """A run under way: report what you know, or nothing at all."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def setup_is_over(self) -> None:
        """Start counting the duration now."""
        with self._recorder.guard:
            self._recorder.setup_is_over()

    def step(self, samples: float | None = None) -> None:
        """Report the end of a step; `samples` of all workers, by default the batch size."""
        with self._recorder.guard:
            self._recorder.step_ended(samples)

    def phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase such as `data_loading` or `communication`."""
        with self._recorder.guard:
            self._recorder.add_phase(name, seconds)


class record:  # noqa: N801 - it reads as a verb: `with record("resnet50"):`
    """Records a block (`with record(...) as run:`) or each call of a function (`@record(...)`).

    `async with record(...) as run:` lets other asyncio tasks continue while the run is uploaded.

    Parameters
    ----------
    workload
        The workload's id.
    options
        What can be stated about the run; see `RunOptions`.
    """

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        self._workload = workload
        self._options = options

    def __enter__(self) -> RecordedRun:
        self._recorder = Recorder(self._workload, self._options)
        return RecordedRun(self._recorder)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder.finish(status_of(error))

    async def __aenter__(self) -> RecordedRun:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A generator that is being closed must not await.
        if isinstance(error, GeneratorExit) or not _is_task():
            self._recorder.finish(status_of(error))
        else:
            await self._recorder.finish_awaited(status_of(error))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function whose every call is recorded as a run.

        A coroutine or a generator is recorded to its end.
        """
        if inspect.iscoroutinefunction(function):
            return self._recorded_coroutine(function)  # type: ignore[return-value] # R is awaitable
        if inspect.isgeneratorfunction(function):
            return self._recorded_generator(function)  # type: ignore[return-value] # R is a generator
        if inspect.isasyncgenfunction(function):
            return self._recorded_async_generator(function)  # type: ignore[return-value] # as above

        @functools.wraps(function)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
            with record(self._workload, **self._options):
                return function(*args, **kwargs)

        return recorded

    def _recorded_coroutine(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @functools.wraps(function)
        async def recorded(*args: P.args, **kwargs: P.kwargs) -> T:
            async with record(self._workload, **self._options):
                return await function(*args, **kwargs)

        return recorded

    def _recorded_generator(
        self, function: Callable[P, Generator[T, Any, Any]]
    ) -> Callable[P, Generator[T, Any, Any]]:
        @functools.wraps(function)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> Generator[T, Any, Any]:
            with record(self._workload, **self._options):
                return (yield from function(*args, **kwargs))

        return recorded

    def _recorded_async_generator(
        self, function: Callable[P, AsyncGenerator[T, Any]]
    ) -> Callable[P, AsyncGenerator[T, Any]]:
        @functools.wraps(function)
        async def recorded(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, Any]:
            async with (
                record(self._workload, **self._options),
                contextlib.aclosing(function(*args, **kwargs)) as generator,
            ):
                async for item in generator:
                    yield item

        return recorded


def _is_task() -> bool:
    """Whether an asyncio task is running; other event loops wait in other ways."""
    import asyncio

    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
