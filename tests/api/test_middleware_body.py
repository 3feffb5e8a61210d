"""Bodies are decompressed, limited and timed; every refusal is a problem."""

import gzip
import zlib
from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from app.api.middleware.decoding import DECODERS, GzipDecoder, ZstdDecoder
from app.domain.errors import InvalidRequestError
from app.domain.zstd import zstd
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.echo import Echo, echoing_client
from tests.support.engines import before_any_row

_LIMIT = 200_000


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body)


_ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "zstd": zstd.compress,
}


@pytest.fixture
def echoing(database: Database, settings: Settings) -> Iterator[tuple[TestClient, Echo]]:
    limited = settings.model_copy(update={"max_body_bytes": _LIMIT})
    with echoing_client(limited, Services(ServiceContext(database, limited))) as echoing:
        yield echoing


@pytest.fixture
def client(echoing: tuple[TestClient, Echo]) -> TestClient:
    return echoing[0]


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "zstd", "GZIP"])
@before_any_row
def test_compressed_body_arrives_decompressed(client: TestClient, encoding: str) -> None:
    body = b"workload,duration_seconds\n" * 5000
    packed = _ENCODE[encoding.casefold()](body)

    answer = client.post("/v1/echo", content=packed, headers={"Content-Encoding": encoding})

    assert answer.content == body


@before_any_row
def test_plain_body_arrives_as_it_is(client: TestClient) -> None:
    answer = client.post("/v1/echo", content=b"abc", headers={"Content-Encoding": "identity"})

    assert answer.content == b"abc"


@before_any_row
def test_concatenated_members_are_one_body(client: TestClient) -> None:
    for encoding in ("gzip", "zstd"):
        packed = _ENCODE[encoding](b"first,") + _ENCODE[encoding](b"second")
        answer = client.post("/v1/echo", content=packed, headers={"Content-Encoding": encoding})
        assert answer.content == b"first,second"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@before_any_row
def test_body_of_exactly_the_limit_is_read(client: TestClient, encoding: str) -> None:
    packed = _ENCODE[encoding](bytes(_LIMIT))

    answer = client.post("/v1/echo", content=packed, headers={"Content-Encoding": encoding})

    assert answer.headers["x-size"] == str(_LIMIT)


@pytest.mark.parametrize("path", ["/v1/echo", "/v1/json"])
@pytest.mark.parametrize("encoding", ["identity", "gzip", "zstd"])
@before_any_row
def test_larger_body_is_refused_with_the_limit(
    client: TestClient, encoding: str, path: str
) -> None:
    body = bytes(10 * _LIMIT)
    packed = _ENCODE[encoding](body) if encoding in _ENCODE else body

    answer = client.post(path, content=packed, headers={"Content-Encoding": encoding})

    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert str(_LIMIT) in answer.json()["detail"]


@before_any_row
def test_body_of_unknown_length_is_counted(client: TestClient) -> None:
    answer = client.post("/v1/echo", content=iter([bytes(_LIMIT), b"x"]))

    assert answer.status_code == 413


@before_any_row
def test_unknown_encoding_names_the_known_ones(client: TestClient) -> None:
    answer = client.post("/v1/echo", content=b"x", headers={"Content-Encoding": "br"})

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "gzip, zstd" in answer.json()["detail"]
    assert answer.headers["accept-encoding"] == "gzip, zstd, identity"


@pytest.mark.parametrize("path", ["/v1/echo", "/v1/json"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@before_any_row
def test_corrupt_and_truncated_streams_are_invalid(
    client: TestClient, encoding: str, path: str
) -> None:
    packed = _ENCODE[encoding](b'{"a": 1}' * 99)
    for broken in (b"\x01" + packed, packed[:-3], packed + b"rubbish"):
        answer = client.post(path, content=broken, headers={"Content-Encoding": encoding})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@before_any_row
def test_empty_compressed_body_is_empty(client: TestClient) -> None:
    for encoding in ("gzip", "zstd"):
        answer = client.post("/v1/echo", content=b"", headers={"Content-Encoding": encoding})
        assert answer.content == b""


@before_any_row
def test_body_of_a_get_is_limited_too(client: TestClient) -> None:
    answer = client.request("GET", "/v1/echo", content=bytes(_LIMIT + 1))

    assert answer.status_code == 413


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
@before_any_row
def test_json_is_read_with_and_without_charset(client: TestClient, content_type: str) -> None:
    answer = client.post("/v1/json", content=b'{"a": 1}', headers={"Content-Type": content_type})

    assert answer.json() == {"a": 1}


@pytest.mark.parametrize("content_type", ["text/plain", "text/csv", ""])
@before_any_row
def test_other_content_type_is_unsupported(client: TestClient, content_type: str) -> None:
    answer = client.post("/v1/json", content=b'{"a": 1}', headers={"Content-Type": content_type})

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "application/json" in answer.json()["detail"]


@before_any_row
def test_malformed_json_is_invalid_with_its_position(client: TestClient) -> None:
    answer = client.post(
        "/v1/json", content=b'{"a": 1,\n "b": }', headers={"Content-Type": "application/json"}
    )

    [fault] = answer.json()["errors"]
    assert answer.json()["code"] == "invalid_request"
    assert "line 2, column 7" in fault["message"]
    assert fault["remedy"]


@before_any_row
def test_text_that_is_not_utf8_is_invalid(client: TestClient) -> None:
    answer = client.post(
        "/v1/json", content=b'{"a": "\xff\xfe"}', headers={"Content-Type": "application/json"}
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def _decode(name: str, chunks: list[bytes]) -> list[bytes]:
    decoder = DECODERS[name]()
    pieces = [piece for chunk in chunks for piece in decoder.decode(chunk)]
    assert decoder.is_complete()
    return pieces


@given(
    body=st.binary(max_size=2000), size=st.integers(1, 50), name=st.sampled_from(["gzip", "zstd"])
)
def test_any_split_into_chunks_decodes_to_the_same(body: bytes, size: int, name: str) -> None:
    packed = _ENCODE[name](body)
    chunks = [packed[start : start + size] for start in range(0, len(packed), size)]

    assert b"".join(_decode(name, chunks)) == body


def test_a_bomb_is_handed_out_in_small_pieces() -> None:
    bomb = bytes(100 << 20)
    gzipped = zlib.compressobj(wbits=31)
    packed = gzipped.compress(bomb) + gzipped.flush()

    largest = max(len(piece) for piece in GzipDecoder().decode(packed))
    largest_zstd = max(len(piece) for piece in ZstdDecoder().decode(zstd.compress(bomb)))

    assert largest <= 1 << 18
    assert largest_zstd <= 1 << 23


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_that_hold_nothing_are_bounded(name: str) -> None:
    empty = _ENCODE[name](b"")

    assert _decode(name, [empty * 10_000]) == []
    with pytest.raises(InvalidRequestError, match="more than 10000 members"):
        _decode(name, [empty * 10_001])
