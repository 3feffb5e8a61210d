"""Artefacts of which single parts are exchanged, under a right hash."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models import FloatArray
from models.artefacts.serialization import ARRAYS, HEADER
from models.state.packing import pack, unpack


@dataclass(frozen=True)
class Artefact:
    """Bytes that no failure prints in full."""

    data: bytes = field(repr=False)

    def header(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.part(HEADER))
        return document

    def with_header(self, header: object) -> bytes:
        return self.with_part(HEADER, json.dumps(header).encode())

    def part(self, name: str) -> bytes:
        return bytes(unpack(self.data)[name])

    def with_part(self, name: str, part: bytes) -> bytes:
        return pack({**unpack(self.data), name: part})

    def block(self) -> FloatArray:
        """Return all numbers, as a copy."""
        return np.frombuffer(self.part(ARRAYS)).copy()

    def with_block(self, block: FloatArray) -> bytes:
        return self.with_part(ARRAYS, block.tobytes())

    def array(self, name: str) -> FloatArray:
        """Return an array of the block, as a copy."""
        start, shape = self._place(name)
        found: FloatArray = self.block()[start : start + int(np.prod(shape))].reshape(shape)
        return found

    def with_array(self, name: str, values: FloatArray) -> bytes:
        block, (start, _) = self.block(), self._place(name)
        block[start : start + values.size] = values.ravel()
        return self.with_block(block)

    def _place(self, name: str) -> tuple[int, list[int]]:
        header, start = self.header(), 0
        first = header["same_arrays"].get(name, name)
        for array_name, shape in header["arrays"]:
            if array_name == first:
                return start, shape
            start += int(np.prod(shape))
        raise KeyError(name)
