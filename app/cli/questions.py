"""Makes up a question about a workload from its measured runs."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from app.cli.connection import Connection, path_of
from app.domain.comma_lists import join_list, split_list
from app.domain.flat_fields import PARAMETER, WORK

_DATA_FACTOR: Final = 4
_MAX_WORKERS_FACTOR: Final = 4
_OWN_PRICE: Final = "0.10"


@dataclass(frozen=True, slots=True)
class Question:
    """A what-if beyond the measured range, and a recommendation request for the same work."""

    workload: str
    sentence: str
    what_if: dict[str, str]
    recommendation: dict[str, Any]

    @property
    def path_of_one(self) -> str:
        """Return path and query of the what-if's last configuration alone."""
        last = {name: join_list(split_list(values)[-1:]) for name, values in self.what_if.items()}
        return f"{path_of(self.workload, 'forecast')}?{urlencode(last)}"


def _doublings(limit: int) -> list[int]:
    counts = [1]
    while counts[-1] * 2 <= limit:
        counts.append(counts[-1] * 2)
    return counts


def _parameters(features: dict[str, Any]) -> dict[str, Any]:
    chosen = {}
    for name, feature in features.items():
        if name.startswith(PARAMETER):
            is_number = feature["type"] == "number"
            value = feature["max"] if is_number else feature["values"][0]
            chosen[name.removeprefix(PARAMETER)] = value
    return chosen


def _work(features: dict[str, Any]) -> dict[str, Any]:
    work: dict[str, Any] = {name: features[name]["max"] for name in WORK if name in features}
    if "dataset_size" in work:
        work["dataset_size"] *= _DATA_FACTOR
    return work


def question_about(connection: Connection, workload: str) -> Question:
    """Return a question about more data and more workers than measured."""
    features = connection.get(path_of(workload), required="features")["features"]
    gpu_types = features.get("gpu_type", {}).get("values", [])
    max_workers = features.get("workers", {}).get("max", 1)
    workers = _doublings(int(max_workers) * _MAX_WORKERS_FACTOR)
    work, parameters = _work(features), _parameters(features)
    pricing = {} if gpu_types else {"price_per_hour": _OWN_PRICE, "currency": "USD"}
    search = {"workers": workers} | ({"gpu_types": gpu_types} if gpu_types else {})
    what_if = {name: str(value) for name, value in work.items()}
    what_if |= {PARAMETER + name: join_list([str(value)]) for name, value in parameters.items()}
    what_if |= {"workers": ",".join(str(count) for count in workers), **pricing}
    if gpu_types:
        what_if["gpu_type"] = join_list(gpu_types)
    price = "" if gpu_types else f"; {_OWN_PRICE} USD an hour a worker is a price we made up"
    return Question(
        workload=workload,
        sentence=f"{_DATA_FACTOR} times the largest data that was measured{price}",
        what_if=what_if,
        recommendation={
            "workload": workload,
            "work": work,
            "parameters": parameters,
            "search": search,
            "objective": "cost",
        }
        | ({"pricing": pricing} if pricing else {}),
    )
