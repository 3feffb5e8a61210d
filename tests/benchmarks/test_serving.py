"""The serving benchmark: its load generator counts right, its ratios are paired."""

import asyncio
import json
from dataclasses import replace
from itertools import islice

import pytest

from benchmarks.serving.__main__ import PARTS, main, table_of
from benchmarks.serving.artefacts import measure_loads
from benchmarks.serving.load import MARK, Order, carry_out, requests_of
from benchmarks.serving.many import measure_recommendations
from benchmarks.serving.slices import Figure, Goal, Slices, alternate
from benchmarks.serving.stage import prepared_stage

pytestmark = pytest.mark.lengthy

GOAL = Goal("speed", "floor", 0.5, is_least=True)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Refuse every body that holds an odd number, on connections that stay open."""
    while head := await _head(reader):
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        number = json.loads(await reader.readexactly(length))
        status = b"422 No" if number % 2 else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\nok")
    writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def _loaded(**changes: object) -> tuple[int, int]:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    order = Order(server.sockets[0].getsockname()[1], "/", MARK, connections=2, seconds=0.05)
    async with server:
        outcome = await carry_out(replace(order, **changes))  # type: ignore[arg-type] # any field
    assert outcome.per_second > 0
    assert 0 < outcome.median_s <= outcome.p99_s
    return outcome.answered, outcome.failures


def test_load_asks_another_question_each_time_and_counts_refusals() -> None:
    answered, failures = asyncio.run(_loaded())

    assert answered > 2
    assert abs(failures - answered / 2) <= 1


def test_load_at_a_rate_asks_so_often() -> None:
    answered, failures = asyncio.run(_loaded(rate=200.0, seconds=0.1))

    assert (answered, failures) == (20, 10)


def test_requests_without_a_number_are_the_same_bytes() -> None:
    one, other = islice(requests_of(Order(1, "/v1/forecasts", "{}")), 2)

    assert one is other
    assert one.startswith(b"POST /v1/forecasts HTTP/1.1\r\n")


def test_ratio_pairs_each_slice_with_the_floor_beside_it() -> None:
    slices = Slices([2.0, 20.0, 60.0], [1.0, 10.0, 20.0], [1.0, 11.0, 20.0])

    assert (slices.ratio, slices.control, slices.spread) == (2.0, 1.0, (2.0, 3.0))


def test_ours_and_the_floor_alternate_after_one_turn_that_does_not_count() -> None:
    calls: list[str] = []

    def turn(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    alternate(lambda: turn("ours"), lambda: turn("floor"), 2)

    assert calls == ["ours", "floor", *(["floor", "ours", "floor"] * 2)]


@pytest.mark.parametrize(("value", "failures", "is_met"), [(0.6, 0, True), (0.4, 0, False)])
def test_figure_meets_its_goal(value: float, failures: int, is_met: bool) -> None:  # noqa: FBT001 - a case
    assert Figure(GOAL, value, None, None, failures).is_met is is_met


def test_one_refused_answer_misses_the_goal() -> None:
    figure = Figure(GOAL, 0.9, None, None, failures=1)

    assert not figure.is_met
    assert list(table_of([figure]).columns[7].cells) == ["MISSED"]


def test_help_names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    text = capsys.readouterr().out
    assert all(name in text for name in PARTS)


def test_parts_measure_on_a_fitted_workload() -> None:
    with prepared_stage(24) as stage:
        loads = list(measure_loads(stage, 1, 0.1))
        [recommendation] = measure_recommendations(stage, 1, 0.1)

    assert all(figure.value > 0 for figure in loads)
    assert recommendation.failures == 0
