"""Forecasts through the door: figures, costs, support, refusals."""

from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.realised import QUESTION, ask
from tests.support.regressors import fit, law_seconds, publish_regressor, store_runs


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def codes(forecast: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in forecast["warnings"]}


def test_measured_configuration_is_forecast_near_its_law(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client)

    duration = forecast["duration_seconds"]
    assert duration["median"] == pytest.approx(law_seconds(4, 1000), rel=0.1)
    assert duration["lower"] < duration["median"] < duration["upper"]
    assert duration["lower"] < law_seconds(4, 1000) < duration["upper"]
    assert forecast["time_limit_seconds"] >= duration["median"]
    assert forecast["basis"] == "measured"
    assert forecast["support"]["within_range"]
    assert len(forecast["support"]["nearest_runs"]) == 3
    assert forecast["support"]["runs_used"] == 12
    assert forecast["feasibility"]["fits_probability"] > 0.9
    assert forecast["feasibility"]["basis"] == "12 runs that fitted"
    assert forecast["energy"]["kg_co2e"] is None
    assert forecast["energy"]["kilowatt_hours"] == pytest.approx(
        0.070 * 4 * duration["median"] / 3600, rel=1e-3
    )


def test_cost_is_duration_times_price(client: TestClient, published: Services) -> None:
    forecast = ask(client, pricing={"price_per_hour": "36.00"})

    cost, duration = forecast["cost"], forecast["duration_seconds"]
    assert cost["price"]["instances"] == 4
    assert Decimal(cost["median"]) == pytest.approx(
        Decimal("0.04") * Decimal(str(duration["median"])), abs=Decimal("0.01")
    )
    assert sum(Decimal(item["amount"]) for item in cost["line_items"]) == Decimal(cost["median"])
    assert Decimal(cost["lower"]) < Decimal(cost["median"]) < Decimal(cost["upper"])


def test_catalogue_price_comes_with_date_and_source(
    client: TestClient, published: Services
) -> None:
    price = ask(client)["cost"]["price"]

    assert price["source"]
    assert price["valid_from"].startswith("2026-")
    assert 0 < price["age_days"] < 180


def test_unknown_price_gives_no_cost_but_a_duration(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client, pricing={"region": "mars-1"})

    assert forecast["cost"] is None
    assert "price_unknown" in codes(forecast)
    assert forecast["duration_seconds"]["median"] > 0


def test_unpriced_question_without_hardware_is_told_to_name_it(
    client: TestClient, published: Services
) -> None:
    [named], [unnamed] = (
        [each for each in ask(client, **changes)["warnings"] if each["code"] == "price_unknown"]
        for changes in ({"pricing": {"region": "mars-1"}}, {"configuration": {"workers": 2}})
    )

    assert unnamed["remedy"] == "Give pricing.price_per_hour, or name gpu_type or instance_type."
    assert named["remedy"].startswith("Give pricing.price_per_hour, or store a price")


def test_stale_price_is_used_with_a_warning(client: TestClient, published: Services) -> None:
    old = {
        "gpu_type": "T4",
        "price_per_hour": "1.00",
        "purchase": "reserved",
        "valid_from": "2020-01-01",
    }
    assert client.post("/v1/prices", json=old).status_code == 201

    forecast = ask(client, pricing={"purchase": "reserved"})

    assert forecast["cost"]["price_per_hour"] == "1.00"
    assert forecast["cost"]["price"]["age_days"] > 2000
    assert "stale_price" in codes(forecast)


def test_other_currency_is_not_converted_in_silence(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client, pricing={"currency": "EUR"})

    assert forecast["cost"]["currency"] == "USD"
    assert "currency_not_converted" in codes(forecast)


def test_own_price_counts_at_once_and_until_it_is_withdrawn(
    client: TestClient, published: Services
) -> None:
    before = ask(client)["cost"]
    own = client.post("/v1/prices", json={"gpu_type": "Tesla T4", "price_per_hour": 0})

    with_own = ask(client)["cost"]
    client.delete(f"/v1/prices/{own.json()['prices'][0]['price_id']}")

    assert with_own["median"] == "0.00"
    assert with_own["price"]["price_id"].startswith("price_")
    assert ask(client)["cost"] == before


def test_probabilities_answer_deadline_and_budget(client: TestClient, published: Services) -> None:
    median = ask(client)["duration_seconds"]["median"]

    forecast = ask(client, deadline_s=median, budget="1000", pricing={"price_per_hour": "1.00"})

    assert forecast["probability"]["deadline"] == pytest.approx(0.5, abs=0.01)
    assert forecast["probability"]["budget"] == 1.0
    assert ask(client)["probability"] == {"deadline": None, "budget": None}


def test_free_capacity_keeps_every_budget(client: TestClient, published: Services) -> None:
    forecast = ask(client, budget="0", pricing={"price_per_hour": 0})

    assert forecast["probability"]["budget"] == 1.0


def test_wider_confidence_contains_the_narrower(client: TestClient, published: Services) -> None:
    narrow = ask(client, confidence=0.5)["duration_seconds"]
    wide = ask(client, confidence=0.95)["duration_seconds"]

    assert wide["lower"] < narrow["lower"] < narrow["upper"] < wide["upper"]
    assert wide["median"] == narrow["median"]


def test_question_beyond_the_range_is_answered_with_a_warning(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client, configuration={"gpu_type": "T4", "workers": 64})

    [axis] = [axis for axis in forecast["support"]["axes"] if axis["name"] == "workers"]
    assert (axis["asked"], axis["measured_min"], axis["measured_max"]) == (64, 1, 8)
    assert axis["distance"] > 0
    assert forecast["basis"] == "extrapolated"
    assert codes(forecast) == {"beyond_range"}
    assert codes(ask(client, work={})) == {"unidentified"}


def test_question_beyond_the_one_measured_value_names_it_once(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "small", sizes=(1000.0,))
    fit(services, "small")

    forecast = ask(client, workload="small", work={"dataset_size": 2500})

    [message] = [each["message"] for each in forecast["warnings"] if each["code"] == "beyond_range"]
    assert message == "dataset_size 2,500 lies outside the one measured value, 1,000."


def test_unmeasured_gpu_with_a_data_sheet_is_transferred(
    client: TestClient, published: Services
) -> None:
    known = ask(client)["duration_seconds"]

    forecast = ask(client, configuration={"gpu_type": "NVIDIA L4", "workers": 4})

    duration = forecast["duration_seconds"]
    assert forecast["configuration"]["gpu_type"] == "L4"
    assert forecast["basis"] == "transferred"
    assert duration["upper"] / duration["lower"] > known["upper"] / known["lower"]
    assert codes(forecast) == {"unseen_level"}


def test_unmeasured_category_is_answered_with_a_wide_band(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client, parameters={"precision": "fp8"})

    assert forecast["support"]["unseen_levels"] == [{"name": "param.precision", "value": "fp8"}]
    assert codes(forecast) == {"unseen_level"}


@pytest.mark.parametrize("level", ["FP16", "fp-16"])
def test_category_written_otherwise_than_measured_is_told_how(
    client: TestClient, published: Services, level: str
) -> None:
    [messages] = [
        warning["message"]
        for warning in ask(client, parameters={"precision": level})["warnings"]
        if warning["code"] == "unseen_level"
    ]

    assert f"param.precision '{level}' ('fp16' was measured; spelling matters)." in messages


def test_instance_type_implies_its_gpu(client: TestClient, published: Services) -> None:
    forecast = ask(client, configuration={"instance_type": "g4dn.12xlarge", "workers": 4})

    assert forecast["configuration"]["gpu_type"] == "T4"
    assert forecast["basis"] == "measured"
    assert forecast["cost"]["price"]["instances"] == 1


def test_more_workers_than_the_nodes_have_gpus_is_told(
    client: TestClient, published: Services
) -> None:
    forecast = ask(
        client,
        configuration={"instance_type": "g4dn.12xlarge", "nodes": 1, "workers": 8},
    )

    assert forecast["cost"]["price"]["instances"] == 1
    assert "workers_exceed_gpus" in codes(forecast)


def test_few_runs_are_told(client: TestClient, services: Services) -> None:
    store_runs(services.context, "small", sizes=(1000.0,))
    fit(services, "small")

    assert "few_runs" in codes(ask(client, workload="small"))


def test_plain_text_reads_as_sentences(client: TestClient, published: Services) -> None:
    answer = client.post("/v1/forecasts", json=QUESTION, headers={"Accept": "text/plain"})

    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.startswith("fitted on 4 x T4 with dataset_size 1,000")


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"workload": "nobody"}, 404, "unknown_workload"),
        ({"regressor_version": 7}, 404, "not_found"),
        ({"configuration": {"gpu_type": "A100"}}, 422, "ambiguous_gpu"),
        ({"configuration": {"gpu_type": "V100"}}, 422, "ambiguous_gpu"),
        ({"configuration": {"gpu_type": "X9000"}}, 422, "unknown_gpu"),
        ({"parameters": {"precison": "fp16"}}, 422, "unknown_field"),
        ({"configuration": {"worker": 2}}, 422, "unknown_field"),
        ({"configuration": {"workers": 0}}, 422, "invalid_request"),
        ({"confidence": 1}, 422, "invalid_request"),
        ({"workload": "no slug!"}, 422, "invalid_request"),
        ({"parameters": {"precision": "a\u0000b"}}, 422, "invalid_request"),
        ({"pricing": {"as_of": "0001-01-01"}}, 422, "invalid_request"),
        ({"pricing": {"as_of": "2026-13-77"}}, 422, "invalid_request"),
    ],
)
def test_bad_question_is_refused_by_its_code(
    client: TestClient, published: Services, changes: dict[str, Any], status: int, code: str
) -> None:
    answer = client.post("/v1/forecasts", json={**QUESTION, **changes})

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_workload_without_regressor_names_found_and_needed_runs(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "raw")

    answer = client.post("/v1/forecasts", json={**QUESTION, "workload": "raw"})

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "no_regressor")
    assert problem["detail"].endswith(": 12 usable runs found, 1 needed.")
    assert problem["remedy"] == "Ask for a fit: POST /v1/workloads/raw/fits."


def test_workload_without_usable_runs_is_told_to_upload_some_first(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "raw", excluded=True)

    problem = client.post("/v1/forecasts", json={**QUESTION, "workload": "raw"}).json()

    assert problem["detail"].endswith(": 0 usable runs found, 1 needed.")
    assert problem["remedy"] == "Upload succeeded runs, then POST /v1/workloads/raw/fits."


def test_workload_that_waits_for_its_first_fit_names_the_fit(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "raw")
    fit_id = client.post("/v1/workloads/raw/fits").json()["fit_id"]

    problem = client.post("/v1/forecasts", json={**QUESTION, "workload": "raw"}).json()

    assert problem["code"] == "no_regressor"
    assert f"a fit is queued: GET /v1/fits/{fit_id}" in problem["detail"]
    assert "/readyz" in problem["remedy"]


def test_malformed_json_shows_where_it_breaks(client: TestClient) -> None:
    answer = client.post(
        "/v1/forecasts", content=b'{"workload": ', headers={"Content-Type": "application/json"}
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "line 1" in answer.json()["errors"][0]["message"]


def test_body_that_is_not_json_is_refused(client: TestClient) -> None:
    answer = client.post(
        "/v1/forecasts", content=b"workload=x", headers={"Content-Type": "text/plain"}
    )

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_named_version_answers_although_another_is_published(
    client: TestClient, published: Services
) -> None:
    fit(published, "fitted")
    published.context.now.advance(2.0)  # type: ignore[attr-defined] # the tests' own clock

    assert ask(client)["regressor_version"] == 2
    assert ask(client, regressor_version=1)["regressor_version"] == 1


def test_time_limit_beyond_64_bits_is_told_as_a_number(
    client: TestClient, services: Services
) -> None:
    runs = [
        {
            "workload": "slow",
            "duration_seconds": 2e8 * size,
            "work": {"dataset_size": size},
        }
        for size in (1.0, 1.2, 1.4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "slow")
    question = {"workload": "slow", "configuration": {}, "work": {"dataset_size": 1e18}}

    answer = client.post(
        "/v1/forecasts", json={**question, "time_limit_quantile": 0.999, "record": False}
    )

    assert answer.status_code == 200, answer.text
    assert answer.json()["time_limit_seconds"] > 2**64
