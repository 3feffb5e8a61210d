"""What requests hold: lists with commas and values that have commas themselves, finite numbers."""

import math

import numpy as np
import pytest
from trainfare_client.errors import BadNumberError
from trainfare_client.requests import flat_fields, get
from trainfare_client.uploads import runs_upload

from app.domain.comma_lists import split_list


def test_a_value_of_a_list_that_has_commas_or_quotes_stands_in_quotes() -> None:
    layouts = ["a,b", "c", 'd,"e"', '"f"']
    fields = flat_fields(configuration={"workers": [1, 2]}, parameters={"layout": layouts})

    request = get("/v1/workloads/w/forecast", fields)

    assert list(request.params) == [
        ("workers", "1,2"),
        ("param.layout", '"a,b",c,"d,""e""","""f"""'),
    ]
    assert split_list(dict(request.params)["param.layout"]) == layouts


def test_a_text_is_one_value() -> None:
    layout = 'a,"b"'
    fields = flat_fields(configuration={"gpu_type": "T4"}, parameters={"layout": layout})

    request = get("/v1/workloads/w/forecast", fields)

    assert list(request.params) == [("gpu_type", "T4"), ("param.layout", '"a,""b"""')]
    assert split_list(dict(request.params)["param.layout"]) == [layout]


@pytest.mark.parametrize("absent", [math.nan, np.float32(math.nan), np.float64(math.inf)])
def test_number_without_a_value_is_refused_by_row_and_name(absent: float) -> None:
    runs = [{"duration_seconds": 3.5, "work": {"epochs": epochs}} for epochs in (2, absent)]

    with pytest.raises(BadNumberError, match=r"^Row 2: work\.epochs is (nan|inf), .* Leave out"):
        runs_upload(runs)  # type: ignore[arg-type] # a data frame's rows are such dictionaries
