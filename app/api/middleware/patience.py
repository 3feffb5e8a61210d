"""Waits for something for so long, and sets no timer where it is there already."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

from typing_extensions import override

T = TypeVar("T")


class _Begun(Awaitable[T], Generic[T]):
    """Something that was awaited until it had to wait for the first time."""

    def __init__(self, steps: Generator[Any, Any, T], step: object) -> None:
        self._steps, self._step = steps, step

    @override
    def __await__(self) -> Generator[Any, Any, T]:
        step = self._step
        try:
            while True:
                try:
                    sent = yield step
                except BaseException as error:  # noqa: BLE001 - a cancellation too is for the steps
                    step = self._steps.throw(error)
                else:
                    step = self._steps.send(sent)
        except StopIteration as ended:
            result: T = ended.value
            return result


async def within(seconds: float, awaited: Awaitable[T]) -> T:
    """Return what is awaited.

    The body of nearly every request came with its headers: a timer for each would cost more
    than all else that is done for reading it.

    Raises
    ------
    TimeoutError
        If it takes longer.
    """
    steps = awaited.__await__()
    try:
        step = next(steps)
    except StopIteration as ended:
        result: T = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _Begun(steps, step)
