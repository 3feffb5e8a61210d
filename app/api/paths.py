"""Path segments that end before a colon, so that `{fit}` and `{fit}:cancel` are two resources."""

from starlette.convertors import Convertor, register_url_convertor
from typing_extensions import override


class _SegmentConvertor(Convertor[str]):
    regex = "[^/:]+"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


def allow_segments() -> None:
    """Let routes be written as `{fit:segment}`; called before the first of them.

    With plain `{fit}` a GET of `{fit}:cancel` is an unknown fit (404), not a wrong method (405).
    """
    register_url_convertor("segment", _SegmentConvertor())
