"""Requests and responses about forecast curves along one axis."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import override

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.flat_queries import FLAT_FIELDS
from app.api.schemas.forecast_answers import ForecastOut
from app.api.schemas.texts import Printable
from app.domain.curves import Axis
from app.domain.flat_fields import PARAMETER

MAX_POINTS = 1000


class CurveQuery(RequestModel):
    """The axis of a curve; the fields of the what-if are further parameters of the query."""

    over: Annotated[
        Printable,
        Field(
            max_length=120,
            description="workers, nodes, dataset_size, batch_size, epochs or param.NAME",
        ),
    ] = "workers"
    from_: Annotated[
        float | None,
        Field(
            alias="from",
            gt=0,
            le=1e18,
            description="where the axis begins; default: 1, of nodes the fewest that have a GPU for"
            " each worker",
        ),
    ] = None
    to: Annotated[float, Field(gt=0, le=1e18, description="where the axis ends")] = 64.0
    points: Annotated[int, Field(ge=2, le=MAX_POINTS, description="at most this many")] = 64

    model_config = ConfigDict(extra="allow")

    @override
    @classmethod
    def accepts_extra(cls, name: str) -> bool:
        """Whether a field belongs to the what-if; such fields are checked where they are read."""
        return name in FLAT_FIELDS or name.startswith(PARAMETER)

    @model_validator(mode="after")
    def _rises(self) -> Self:
        start = self.start
        if self.to < start:
            raise PydanticCustomError(
                "order",
                "The axis ends before it begins",
                {"path": ["to"], "remedy": "Let `from` be at most `to`."},
            )
        whole = {"workers", "nodes"}
        if self.over in whole and (self.to > 1_000_000 or start % 1 or self.to % 1):  # noqa: PLR2004
            raise PydanticCustomError(
                "whole",
                "The axis counts from 1 to 1,000,000",
                {"path": ["from"], "remedy": "Give whole numbers for `from` and `to`."},
            )
        return self

    @property
    def start(self) -> float:
        """Where the axis begins."""
        return 1.0 if self.from_ is None else self.from_

    def to_axis(self) -> Axis:
        """Return the axis."""
        return Axis(self.over, self.start, self.to, self.points, is_start_open=self.from_ is None)


class CurvePointOut(ResponseModel):
    """A forecast on the curve; speed-up and efficiency are relative to the first point."""

    value: float
    forecast: ForecastOut
    speed_up: float | None
    efficiency: float | None
    seconds_saved_per_money: float | None


class MeasuredPointOut(ResponseModel):
    """A measured run that differs from the question in the axis alone."""

    run_id: str
    value: float
    duration_seconds: float


class CurveOut(ResponseModel):
    """Forecasts along one axis, and the measured runs on it."""

    workload: str
    over: str
    points: list[CurvePointOut]
    measured: list[MeasuredPointOut]
