"""The rules between the fields of a row, and what is odd about a row without being wrong."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

import numpy as np

from app.domain.instants import instant_text
from app.domain.runs import RunStatus
from app.services.uploads.chunks import BoolArray, Chunk, FloatArray
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import PHASE, TEN_YEARS_S
from app.services.uploads.terms import Oddity

_SPAN_SHARE: Final = 1.01
_SPAN_SLACK_S: Final = 1.0
_MIN_SHARE_OF_SPAN: Final = 0.5
_SETUP: Final = f"{PHASE}setup_seconds"


def check_rows(chunk: Chunk, faults: FaultCollector) -> None:
    """Note the rows that lack a required field or whose fields contradict each other.

    Fills in durations from the instants, and currencies from the cost's name.
    """
    _require_workload(chunk, faults)
    _settle_duration(chunk, faults)
    _settle_cost(chunk, faults)


def _require_workload(chunk: Chunk, faults: FaultCollector) -> None:
    workloads = chunk.texts.setdefault("workload", [None] * len(chunk))
    for index in [i for i, workload in enumerate(workloads) if workload is None]:
        row = int(chunk.rows[index])
        if row not in faults.bad_rows:
            faults.add(row, "workload", None, "workload is missing.", "Name the run's workload.")


def _settle_duration(chunk: Chunk, faults: FaultCollector) -> None:
    durations = chunk.numbers.setdefault("duration_seconds", np.full(len(chunk), np.nan))
    spans = _spans(chunk)
    for index in np.flatnonzero(spans < 0).tolist():
        ended_at = chunk.instants["ended_at"][index]
        faults.add(
            int(chunk.rows[index]),
            "ended_at",
            None if ended_at is None else instant_text(ended_at),
            "ended_at is before started_at.",
            "Swap them, or correct their offsets.",
        )
    with np.errstate(invalid="ignore"):
        too_long = durations > spans * _SPAN_SHARE + _SPAN_SLACK_S
    for index in np.flatnonzero(too_long & (spans >= 0)).tolist():
        faults.add(
            int(chunk.rows[index]),
            "duration_seconds",
            float(durations[index]),
            f"The run took {spans[index]:g} s from started_at to ended_at.",
            "Send seconds (not milliseconds), or leave duration_seconds out.",
        )
    missing = np.isnan(durations)
    durations[missing] = spans[missing]
    usable = (durations > 0) & (durations <= TEN_YEARS_S)
    for index in np.flatnonzero(missing & ~usable).tolist():
        row = int(chunk.rows[index])
        if row not in faults.bad_rows:
            faults.add(
                row,
                "duration_seconds",
                None,
                "duration_seconds is missing.",
                "Send duration_seconds, or started_at and a later ended_at.",
            )


def _spans(chunk: Chunk) -> FloatArray:
    starts, ends = chunk.instants.get("started_at"), chunk.instants.get("ended_at")
    if starts is None or ends is None:
        return np.full(len(chunk), np.nan)
    pairs = zip(starts, ends, strict=True)
    return np.array(
        [(end - start).total_seconds() if start and end else np.nan for start, end in pairs],
        dtype=np.float64,
    )


def _settle_cost(chunk: Chunk, faults: FaultCollector) -> None:
    dollars = chunk.money.pop("cost_usd", None)
    amounts, currencies = chunk.money.get("cost_amount"), chunk.texts.get("cost_currency")
    if dollars is not None and amounts is None and currencies is None:
        chunk.money["cost_amount"] = dollars
        chunk.texts["cost_currency"] = [None if cost is None else "USD" for cost in dollars]
    elif amounts is not None or currencies is not None:
        nothing = [None] * len(chunk)
        _match_currencies(
            chunk, faults, amounts or nothing, currencies or nothing, dollars or nothing
        )


def _match_currencies(
    chunk: Chunk,
    faults: FaultCollector,
    amounts: Sequence[Decimal | None],
    currencies: Sequence[str | None],
    dollars: Sequence[Decimal | None],
) -> None:
    money = list(amounts)
    units = list(currencies)
    for index, row in enumerate(chunk.rows.tolist()):
        is_repeated = money[index] is not None and dollars[index] is not None
        if dollars[index] is not None and not is_repeated:
            money[index], units[index] = dollars[index], units[index] or "USD"
            is_repeated = units[index] != "USD"
        is_incomplete = (money[index] is None) != (units[index] is None)
        if (is_incomplete or is_repeated) and row not in faults.bad_rows:
            faults.add(
                row,
                "cost_amount",
                None if money[index] is None else str(money[index]),
                "A cost is one amount in one currency.",
                "Send cost_usd, or cost_amount with cost_currency (in JSON: amount and currency).",
            )
    chunk.money["cost_amount"], chunk.texts["cost_currency"] = money, units


class OddityCollector:
    """Counts the oddities of one upload's rows."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Oddity] = {}

    @property
    def found(self) -> list[Oddity]:
        """The oddities that at least one row has."""
        return list(self._found.values())

    def look_at(self, chunk: Chunk) -> None:
        """Count the odd rows of a chunk."""
        for code, message, remedy, is_odd in _oddities(chunk):
            if is_odd.any():
                self.note(Oddity(code, message, remedy), chunk.rows[is_odd].tolist())

    def note(self, oddity: Oddity, rows: list[int]) -> None:
        """Count rows that have an oddity."""
        self._found.setdefault((oddity.code, oddity.message), oddity).add(rows)


def _oddities(chunk: Chunk) -> Iterator[tuple[str, str, str, BoolArray]]:
    durations = chunk.numbers["duration_seconds"]
    # Set-up may lie outside the measured duration: compilation and warm-up often do.
    phases = [
        values
        for name, values in chunk.numbers.items()
        if name.startswith(PHASE) and name != _SETUP
    ]
    if phases:
        longest = np.fmax.reduce(phases)
        yield (
            "phase_exceeds_run",
            "A phase is longer than the run.",
            "Send the phases of one worker in seconds of wall-clock time.",
            longest > durations * _SPAN_SHARE,
        )
    if "ended_at" in chunk.instants:
        setup = chunk.numbers.get(_SETUP)
        total = durations if setup is None else durations + np.nan_to_num(setup)
        yield (
            "shorter_than_span",
            "A duration with its set-up is less than half of the time from started_at to ended_at.",
            "Send seconds (not minutes or hours); what set-up took is phase.setup_seconds.",
            # Queueing and pauses may lie in the span, but seldom fill most of it.
            total + _SPAN_SLACK_S < _spans(chunk) * _MIN_SHARE_OF_SPAN,
        )
    progress = chunk.numbers.get("progress")
    if progress is not None:
        statuses = chunk.texts.get("status") or [None] * len(chunk)
        succeeded = np.array([status in {None, RunStatus.SUCCEEDED} for status in statuses])
        yield (
            "complete_before_the_end",
            "A run with a progress below 1 counts as complete; an absent `status` is succeeded.",
            "Send the status with which it ended early (such as cancelled), or leave progress out.",
            (progress < 1.0) & succeeded,
        )
    nodes, workers = chunk.numbers.get("nodes"), chunk.numbers.get("workers")
    if nodes is not None:
        counts = np.ones(len(chunk)) if workers is None else np.where(np.isnan(workers), 1, workers)
        yield (
            "more_nodes_than_workers",
            "A run has more nodes than workers; an absent `workers` counts as 1.",
            "Send `workers`: the training processes over all nodes.",
            nodes > counts,
        )
