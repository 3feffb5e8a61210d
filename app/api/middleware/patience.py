"""Awaits something with a timeout, without a timer if it is ready at once."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

from typing_extensions import override

T = TypeVar("T")


class _Begun(Awaitable[T], Generic[T]):
    """An awaitable that has already been run up to its first suspension."""

    def __init__(self, steps: Generator[Any, Any, T], step: object) -> None:
        self._steps, self._step = steps, step

    @override
    def __await__(self) -> Generator[Any, Any, T]:
        step = self._step
        try:
            while True:
                try:
                    sent = yield step
                except BaseException as error:  # noqa: BLE001 - cancellations are passed on too
                    step = self._steps.throw(error)
                else:
                    step = self._steps.send(sent)
        except StopIteration as ended:
            result: T = ended.value
            return result


async def within(seconds: float, awaited: Awaitable[T]) -> T:
    """Return the result of an awaitable, with a timeout.

    Nearly every request's body arrives with its headers: a timer for each would cost more than
    the rest of reading it.

    Raises
    ------
    TimeoutError
        If it takes longer than `seconds`.
    """
    steps = awaited.__await__()
    try:
        step = next(steps)
    except StopIteration as ended:
        result: T = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _Begun(steps, step)
