"""Path segments that end before a colon, so that `{fit}` and `{fit}:cancel` are distinct."""

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
    """Allow paths such as `{fit:segment}`; call it before the first such route is defined.

    With plain `{fit}`, a GET of `{fit}:cancel` is an unknown fit (404), not a wrong method (405).
    """
    register_url_convertor("segment", _SegmentConvertor())
