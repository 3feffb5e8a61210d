"""What-if questions by curl: points, grids, texts, curves."""

import csv
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api.schemas.flat_queries import read_grid
from app.services.wiring import Services
from tests.support.engines import before_any_row
from tests.support.regressors import fit, law_seconds, publish_regressor

PATH = "/v1/workloads/fitted/forecast"
CURVE = "/v1/workloads/fitted/curve"


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def get(client: TestClient, url: str, accept: str = "application/json") -> Any:
    answer = client.get(url, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(accept)
    return answer.json() if accept == "application/json" else answer.text


def test_one_point_is_the_forecast_itself(client: TestClient, published: Services) -> None:
    question = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": 4},
        "work": {"dataset_size": 1000},
        "parameters": {"precision": "fp16"},
        "record": False,
    }

    answer = get(client, f"{PATH}?gpu_type=T4&workers=4&dataset_size=1000&param.precision=fp16")

    assert answer == client.post("/v1/forecasts", json=question).json()


def test_comma_lists_make_a_grid(client: TestClient, published: Services) -> None:
    answer = get(client, f"{PATH}?gpu_type=T4,L4&workers=1,2,4&dataset_size=1000")

    points = [
        (forecast["configuration"]["gpu_type"], forecast["configuration"]["workers"])
        for forecast in answer["forecasts"]
    ]
    assert points == [(gpu, workers) for gpu in ("T4", "L4") for workers in (1, 2, 4)]


def test_field_that_comes_again_continues_its_list(client: TestClient, published: Services) -> None:
    answer = get(client, f"{PATH}?workers=1&workers=2,4&epochs=")

    assert [forecast["configuration"]["workers"] for forecast in answer["forecasts"]] == [1, 2, 4]


def test_both_names_of_a_parameter_make_one_list() -> None:
    grid = read_grid([("framework", "torch"), ("param.framework", "jax")], "fitted")

    assert [point["parameters"] for point in grid.points()] == [
        {"framework": "torch"},
        {"framework": "jax"},
    ]


def test_pricing_and_spot_stand_beside_the_columns(client: TestClient, published: Services) -> None:
    answer = get(
        client,
        f"{PATH}?workers=2&dataset_size=1000&purchase=spot&price_per_hour=3&currency=EUR"
        "&interruptions_per_hour=1&confidence=0.5&deadline_s=1000&budget=1.5",
    )

    assert answer["cost"]["currency"] == "EUR"
    assert answer["cost"]["price"]["purchase"] == "spot"
    assert answer["duration_seconds"]["confidence"] == 0.5
    assert answer["probability"]["deadline"] > 0.9
    assert answer["probability"]["budget"] > 0.9


def test_text_is_sentences_for_one_and_a_table_for_many(
    client: TestClient, published: Services
) -> None:
    one = get(client, f"{PATH}?workers=2&dataset_size=1000", "text/plain")
    many = get(client, f"{PATH}?workers=2,4&dataset_size=1000", "text/plain")

    assert "confidence between" in one
    assert many.splitlines()[0] == "fitted: dataset_size 1,000"
    assert many.splitlines()[2].split()[:2] == ["workers", "duration"]


def test_csv_has_the_columns_of_an_upload(client: TestClient, published: Services) -> None:
    text = get(client, f"{PATH}?gpu_type=T4&workers=2,4&param.precision=fp16", "text/csv")

    rows = list(csv.DictReader(text.splitlines()))
    assert [row["workers"] for row in rows] == ["2", "4"]
    assert rows[0]["param.precision"] == "fp16"
    assert rows[0]["dataset_size"] == ""
    assert float(rows[0]["duration_lower"]) < float(rows[0]["duration_seconds"])
    assert rows[0]["currency"] == "USD"


def test_csv_tells_which_limits_each_row_keeps(client: TestClient, published: Services) -> None:
    path = f"{PATH}?gpu_type=T4&workers=2,4&param.precision=fp16&dataset_size=1000"

    limited = csv.DictReader(get(client, f"{path}&deadline_s=1e6", "text/csv").splitlines())
    free = csv.DictReader(get(client, path, "text/csv").splitlines())

    assert [row["deadline_probability"] for row in limited] == ["1.0", "1.0"]
    assert [row["deadline_probability"] + row["budget_probability"] for row in free] == ["", ""]


def test_csv_leaves_an_unknown_cost_empty(client: TestClient, published: Services) -> None:
    text = get(client, f"{PATH}?workers=2", "text/csv")

    [row] = csv.DictReader(text.splitlines())
    assert (row["cost"], row["instances"]) == ("", "")
    assert "price_unknown" in row["warnings"]


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("worker=2", "unknown_field", "worker"),
        ("zzzzzz=2", "unknown_field", "zzzzzz"),
        ("param.=2", "unknown_field", "param."),
        ("param.precison=fp16", "unknown_field", "param.precison"),
        ("workers=many", "invalid_request", "workers"),
        ("workers=0", "invalid_request", "workers"),
        ("confidence=0.5,0.9", "invalid_request", "confidence"),
        ("gpu_type=A100", "ambiguous_gpu", "gpu_type"),
    ],
)
def test_bad_field_is_named(
    client: TestClient, published: Services, query: str, code: str, field: str
) -> None:
    answer = client.get(f"{PATH}?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.json()["errors"][0]["field"] == field


def test_grid_is_bounded(client: TestClient, published: Services) -> None:
    many = ",".join(map(str, range(1, 102)))

    answer = client.get(f"{PATH}?workers={many}&epochs={many}")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_parameter_that_is_a_number_refuses_a_word(client: TestClient, services: Services) -> None:
    runs = [
        {"workload": "deep", "duration_seconds": 10.0 * depth, "param.depth": depth}
        for depth in (1, 2, 3, 4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "deep")

    answer = client.get("/v1/workloads/deep/forecast?param.depth=deep")
    good = client.get("/v1/workloads/deep/forecast?param.depth=2")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert good.json()["parameters"] == {"depth": 2}


def test_curve_over_workers_tells_what_more_of_them_bring(
    client: TestClient, published: Services
) -> None:
    curve = get(client, f"{CURVE}?over=workers&from=1&to=8&gpu_type=T4&dataset_size=1000")

    assert [point["value"] for point in curve["points"]] == list(range(1, 9))
    first, second, *_, last = curve["points"]
    assert (first["speed_up"], first["efficiency"]) == (1.0, 1.0)
    assert first["seconds_saved_per_money"] is None
    assert second["seconds_saved_per_money"] > 0
    assert last["speed_up"] > second["speed_up"] > 1
    assert last["efficiency"] < 1
    measured = {(run["value"], run["duration_seconds"]) for run in curve["measured"]}
    assert measured == {(workers, law_seconds(workers, 1000)) for workers in (1, 2, 4, 8)}


@pytest.mark.parametrize("name", ["dataset_size", "batch_size", "epochs", "param.width"])
@pytest.mark.parametrize("path", ["curve?over=workers&from=1&to=8", "forecast?workers=2"])
@before_any_row
def test_list_without_a_value_is_refused(
    client: TestClient, published: Services, path: str, name: str
) -> None:
    answer = client.get(f"/v1/workloads/fitted/{path}&{name}=,")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [fault["field"] for fault in answer.json()["errors"]] == [name]


def test_long_curve_is_thinned_out(client: TestClient, published: Services) -> None:
    curve = get(client, f"{CURVE}?from=1&to=10000&points=20")

    values = [point["value"] for point in curve["points"]]
    assert values[0] == 1
    assert values[-1] == 10_000
    assert values == sorted(set(values))
    assert len(values) <= 20


def test_curve_over_data_has_no_speed_up(client: TestClient, published: Services) -> None:
    curve = get(client, f"{CURVE}?over=dataset_size&from=100&to=10000&points=5&workers=2")

    assert [point["value"] for point in curve["points"]] == [100, 316.228, 1000, 3162.28, 10000]
    assert {point["speed_up"] for point in curve["points"]} == {None}
    assert {point["seconds_saved_per_money"] for point in curve["points"]} == {None}
    assert len(curve["measured"]) == 3


def test_axis_spans_all_that_can_be_asked_for(client: TestClient, published: Services) -> None:
    curve = get(client, f"{CURVE}?over=dataset_size&from=1e-300&to=1e18&points=3&workers=2")

    assert [point["value"] for point in curve["points"]] == [1e-300, 1e-141, 1e18]


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (1281167, 5000000, [1281167, 2530980, 5000000]),
        (1000, 1281167, [1000, 35793.4, 1281167]),
        (1281166, 1281167, [1281166, 1281167]),
    ],
)
def test_curve_begins_and_ends_exactly_where_it_was_asked_to(
    start: int, stop: int, expected: list[float], client: TestClient, published: Services
) -> None:
    path = f"{CURVE}?over=dataset_size&from={start}&to={stop}&points=3&workers=2"

    assert [point["value"] for point in get(client, path)["points"]] == expected


def test_curve_of_one_point_is_a_point(client: TestClient, published: Services) -> None:
    curve = get(client, f"{CURVE}?over=nodes&from=2&to=2&workers=4")
    same = get(client, f"{CURVE}?over=epochs&from=2.5&to=2.5")

    assert [point["value"] for point in curve["points"]] == [2]
    assert curve["points"][0]["forecast"]["configuration"]["nodes"] == 2
    assert [point["value"] for point in same["points"]] == [2.5]


def test_curve_along_nodes_begins_where_each_worker_has_a_gpu(
    client: TestClient, published: Services
) -> None:
    """The start is the question's own where it names one, and 1 where no machine is named."""

    def values(query: str) -> list[float]:
        path = f"{CURVE}?over=nodes&workers=8&gpu_type=T4&{query}"
        return [point["value"] for point in get(client, path)["points"]]

    four_gpus = "instance_type=g4dn.12xlarge"
    assert values(f"to=4&{four_gpus}") == [2, 3, 4]
    assert values(f"to=1&{four_gpus}") == [1]
    assert values(f"from=1&to=4&{four_gpus}") == values("to=4") == [1, 2, 3, 4]


def test_curve_reads_as_text_and_csv(client: TestClient, published: Services) -> None:
    path = f"{CURVE}?from=1&to=3&gpu_type=T4&dataset_size=1000"
    text = get(client, f"{path}&confidence=0.8", "text/plain")
    unpriced = get(client, f"{CURVE}?from=1&to=3&dataset_size=1000", "text/plain")
    rows = get(client, f"{CURVE}?from=1&to=3&dataset_size=1000", "text/csv")

    header = re.split(" {2,}", text.splitlines()[2])
    assert header[:4] == ["workers", "duration", "80% interval", "cost"]
    assert header[-2:] == ["s saved per USD", "basis"]
    assert "s saved per money" in unpriced
    assert len(text.splitlines()) == 6
    assert unpriced.splitlines()[6:] == [
        "",
        "Warning (price_unknown): No price is known for this configuration.",
    ]
    assert len(rows.splitlines()) == 4


def test_curve_tells_which_limits_each_point_keeps(client: TestClient, published: Services) -> None:
    path = f"{CURVE}?from=1&to=2&gpu_type=T4&dataset_size=1000&budget=1e-9&deadline_s=1e6"

    head, *rows = get(client, path, "text/plain").splitlines()[2:]

    assert head.endswith("basis  keeps the deadline  keeps the budget")
    assert [row.split()[-2:] for row in rows] == [["100%", "0%"]] * 2


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("over=workrs", "invalid_request"),
        ("over=param.precison", "unknown_field"),
        ("over=param.precision", "invalid_request"),
        ("from=5&to=1", "invalid_request"),
        ("from=1.5&to=3", "invalid_request"),
        ("workers=1,2&epochs=1,2", "invalid_request"),
        ("fro=1", "unknown_field"),
        ("gpu_type=A100", "ambiguous_gpu"),
    ],
)
def test_bad_curve_is_refused(
    client: TestClient, published: Services, query: str, code: str
) -> None:
    answer = client.get(f"{CURVE}?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_unknown_workload_is_not_found(client: TestClient) -> None:
    assert client.get("/v1/workloads/nobody/forecast").json()["code"] == "unknown_workload"
    assert client.get("/v1/workloads/nobody/curve").json()["code"] == "unknown_workload"


def test_parameters_keep_the_type_of_the_runs(client: TestClient, services: Services) -> None:
    runs = [
        {
            "workload": "typed",
            "duration_seconds": 10.0 * depth + seconds,
            "parameters": {"depth": depth, "bits": bits, "flag": flag},
        }
        for depth in (1, 2, 3)
        for bits, seconds, flag in (("16", 1.0, True), ("32", 9.0, False))
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "typed")
    question = {"workload": "typed", "parameters": {"depth": "2", "bits": 16, "flag": True}}

    answer = client.post("/v1/forecasts", json=question).json()
    curve = get(client, "/v1/workloads/typed/curve?over=param.depth&from=1&to=3&points=3")

    assert answer["parameters"] == {"depth": 2, "bits": "16", "flag": "true"}
    assert answer["basis"] == "measured"
    assert len(curve["measured"]) == 6


def test_curve_where_more_workers_cost_less_has_no_gain_per_money(
    client: TestClient, published: Services
) -> None:
    curve = get(client, f"{CURVE}?from=1&to=2&instance_type=g4dn.12xlarge&dataset_size=1000")

    assert curve["points"][1]["seconds_saved_per_money"] is None


def test_a_value_with_commas_stands_in_quotes(client: TestClient, services: Services) -> None:
    runs = [
        {"workload": "w", "duration_seconds": seconds, "parameters": {"layout": layout}}
        for layout, seconds in (("a,b", 10.0), ("c", 20.0), ('d "e"', 30.0))
        for _ in range(3)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "w")

    one = client.get("/v1/workloads/w/forecast", params={"param.layout": '"a,b"'}).json()
    grid = client.get(
        "/v1/workloads/w/forecast", params={"param.layout": 'c, "a,b", "d ""e""", d "e"'}
    ).json()

    assert (one["parameters"], one["basis"]) == ({"layout": "a,b"}, "measured")
    assert [forecast["parameters"]["layout"] for forecast in grid["forecasts"]] == [
        "c",
        "a,b",
        'd "e"',
    ]
    assert {forecast["basis"] for forecast in grid["forecasts"]} == {"measured"}
