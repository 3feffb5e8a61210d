"""Attributes that are computed at first access."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 - a decorator, as `property` is one
    """A method as an attribute: called at first access, then its value is kept.

    `functools.cached_property` of Python 3.11 holds one lock for all instances of a class while it
    computes, so that a large table in one thread keeps all other threads waiting. Here, at worst,
    two threads compute the same value.

    Examples
    --------
    >>> class Circle:
    ...     @once
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.0
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (3.0, 3.0)
    """

    def __init__(self, method: Callable[[Any], Value]) -> None:
        self._method, self.__doc__ = method, method.__doc__
        self._name = method.__name__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._method(instance)
        return value
