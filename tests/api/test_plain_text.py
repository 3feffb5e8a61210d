"""Answers in plain text read as a person would write them."""

from typing import Any

import pytest

from app.api.documents.curves import curve_text
from app.api.documents.plain_text import forecast_sentences, forecast_table, recommendation_text


def make_forecast(**changes: Any) -> dict[str, Any]:
    return {
        "workload": "resnet50",
        "regressor_version": 7,
        "configuration": {
            "gpu_type": "V100-16GB",
            "instance_type": "p3.16xlarge",
            "nodes": None,
            "workers": 8,
        },
        "work": {"dataset_size": 1281167.0, "batch_size": 1024.0, "epochs": 90.0},
        "parameters": {"precision": "fp16"},
        "duration_seconds": {
            "median": 33120.0,
            "lower": 30660.0,
            "upper": 37200.0,
            "confidence": 0.9,
        },
        "time_limit_seconds": 37800,
        "cost": {
            "currency": "USD",
            "median": "301.48",
            "lower": "279.09",
            "upper": "338.62",
            "price_per_hour": "32.77",
            "price": {
                "source": "own",
                "valid_from": "2026-07-20T00:00:00Z",
                "instance_type": "p3.16xlarge",
                "instances": 1,
            },
        },
        "probability": {"deadline": 0.99, "budget": None},
        "support": {"unseen_levels": [], "rare_levels": [], "runs_used": 31},
        "basis": "interpolated",
        "warnings": [],
        **changes,
    }


def test_one_forecast_is_told_in_sentences() -> None:
    text = forecast_sentences(make_forecast())

    assert text == (
        "resnet50 on 8 x V100-16GB (p3.16xlarge) with dataset_size 1,281,167,"
        " batch_size 1,024, epochs 90, param.precision fp16:\n"
        "about 9 h 12 min, with 90% confidence between 8 h 31 min and 10 h 20 min.\n"
        "It costs about 301.48 USD (279.09 to 338.62) at 32.77 USD an hour"
        " (p3.16xlarge, own, 2026-07-20).\n"
        "Basis: interpolated (inside the measured range; 31 runs, regressor version 7).\n"
        "It keeps the deadline with probability 99%.\n"
        "A time limit of 10 h 30 min would be safe.\n"
    )


@pytest.mark.parametrize(
    ("seconds", "told"), [(12500, "3 h 29 min"), (12480, "3 h 28 min"), (180_001, "2 d 3 h")]
)
def test_told_time_limit_is_no_shorter_than_the_safe_one(seconds: int, told: str) -> None:
    text = forecast_sentences(make_forecast(time_limit_seconds=seconds))

    assert f"A time limit of {told} would be safe." in text


def test_cost_of_several_machines_and_its_conversion_are_told() -> None:
    forecast = make_forecast()
    cost = forecast["cost"]
    other = {"instances": 1, "price_per_hour": "2.00", "instance_type": "p3.2xlarge"}
    conversion = {
        "from_currency": "EUR",
        "rate": "1.0842",
        "valid_from": "2026-07-19T00:00:00Z",
        "source": "a bank",
        "listed_price_per_hour": "30.22",
    }
    price = {**cost["price"], "instances": 4, "others": [other]}
    quotient = {**cost, "price_per_hour": "22.25454545454768", "conversion": conversion}

    text = forecast_sentences({**forecast, "cost": {**cost, "price": price}})
    converted = forecast_sentences({**forecast, "cost": quotient})

    assert (
        " at 4 x 32.77 USD an hour (p3.16xlarge, own, 2026-07-20) and 1 x 2.00 (p3.2xlarge).\n"
    ) in text
    assert " at 22.2545 USD an hour (" in converted
    assert " That is 30.22 EUR at 1.0842 (a bank, 2026-07-19).\n" in converted


def test_interruptions_and_both_purchases_are_told() -> None:
    forecast = make_forecast()
    spot = {"expected_interruptions": 2.504, "checkpoint_interval_s": 1800.0}
    band = forecast["duration_seconds"]
    options = [
        {"purchase": "on_demand", "duration_seconds": band, "cost": forecast["cost"]},
        {"purchase": "spot", "duration_seconds": band, "cost": None},
        {"purchase": "spot", "duration_seconds": None, "cost": None, "refused": "It never ends."},
    ]

    best, any_will_do = (
        forecast_sentences(
            {
                **forecast,
                "spot": {**spot, "optimal_checkpoint_interval_s": optimum},
                "purchases": options,
            }
        )
        for optimum in (600.0, None)
    )

    told = "2.5 interruptions are expected with a checkpoint every 30 min"
    assert f"{told}; a checkpoint every 10 min would be best.\n" in best
    assert f"{told}.\n" in any_will_do
    assert (
        "On demand: about 9 h 12 min (at most 10 h 20 min), 301.48 USD (at most 338.62).\n"
        "Spot: about 9 h 12 min (at most 10 h 20 min), the price is unknown.\n"
        "Spot: It never ends.\n"
    ) in best


@pytest.mark.parametrize(
    ("basis", "carbon", "told"),
    [
        ("measured", None, "It uses about 55.1 kWh (power: measured).\n"),
        (
            "data_sheet",
            12.0,
            "It uses at most 55.1 kWh (power: data sheet), that is at most 12 kg CO2e.\n",
        ),
        ("data_sheet", None, ""),
    ],
)
def test_energy_is_told_unless_it_is_an_upper_estimate_alone(
    basis: str, carbon: float | None, told: str
) -> None:
    energy = {"kilowatt_hours": 55.1, "kg_co2e": carbon, "basis": basis}

    text = forecast_sentences(make_forecast(energy=energy))

    assert told in text
    assert ("kWh" in text) == bool(told)


def test_time_and_cost_to_the_target_are_told() -> None:
    forecast = make_forecast()
    target = {
        "epochs": {"median": 12.3456},
        "duration_seconds": forecast["duration_seconds"],
        "cost": forecast["cost"],
    }

    priced, unpriced = (
        forecast_sentences({**forecast, "to_target": {**target, "cost": cost}})
        for cost in (forecast["cost"], None)
    )

    told = "To the target it takes about 12.3 epochs: 9 h 12 min (8 h 31 min to 10 h 20 min)"
    assert f"{told} and cost 301.48 USD.\n" in priced
    assert f"{told}.\n" in unpriced


def test_figures_are_told_without_exponents_and_never_as_more_certain_than_they_are() -> None:
    energy = {"kilowatt_hours": 2.887e-10, "kg_co2e": 1.5e-10, "basis": "given"}
    support = {"unseen_levels": [], "rare_levels": [], "runs_used": 1}
    work = {"dataset_size": 1234567.5}
    probability = {"deadline": 0.99997, "budget": 1.0}

    text = forecast_sentences(
        make_forecast(work=work, support=support, energy=energy, probability=probability)
    )

    assert " dataset_size 1,234,568, " in text
    assert "; 1 run, regressor version 7)." in text
    assert "about 0.0000000002887 kWh (power: given), that is about 0.00000000015 kg CO2e." in text
    assert "It keeps the deadline with probability over 99.99%.\n" in text
    assert "It keeps the budget with probability 100%.\n" in text


def test_influence_that_rounds_to_nothing_has_no_minus() -> None:
    lesson = {"run_ids": ["run_1"], "influence": -0.001}

    assert "run_1 (+0.00%)" in forecast_sentences(make_forecast(taught_by=[lesson]))


def test_unknown_cost_and_warnings_are_said() -> None:
    warning = {"code": "price_unknown", "message": "No price.", "remedy": "POST /v1/prices."}

    text = forecast_sentences(
        make_forecast(cost=None, warnings=[warning], configuration={"workers": 2})
    )

    assert "resnet50 on 2 workers with" in text
    assert "The cost is unknown" in text
    assert "Warning (price_unknown): No price. POST /v1/prices." in text


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        ({"workers": 16, "nodes": 2}, "on 16 workers on 2 nodes with"),
        ({"workers": 16, "nodes": 2, "gpu_type": "T4"}, "on 16 x T4 on 2 nodes with"),
        ({"workers": 16, "nodes": 1, "gpu_type": "T4"}, "on 16 x T4 with"),
        ({"workers": 4096, "nodes": 1, "gpu_type": "T4"}, "on 4,096 x T4 with"),
        (
            {"workers": 8, "nodes": 1, "instance_type": "c5.4xlarge"},
            "on 8 workers (c5.4xlarge) with",
        ),
        (
            {"workers": 8, "nodes": 2, "instance_type": "c5.4xlarge"},
            "on 8 workers (c5.4xlarge) on 2 nodes with",
        ),
    ],
)
def test_workers_and_nodes_are_not_mistaken_for_each_other(
    configuration: dict[str, Any], told: str
) -> None:
    assert told in forecast_sentences(make_forecast(configuration=configuration))


def test_many_forecasts_are_an_aligned_table_of_what_differs() -> None:
    other = make_forecast(configuration={"gpu_type": "T4", "workers": 16}, cost=None)

    lines = forecast_table([make_forecast(), other]).splitlines()

    assert lines[0].startswith("resnet50: dataset_size 1,281,167, batch_size 1,024")
    assert lines[2].split() == [
        "gpu_type",
        "instance_type",
        "workers",
        "duration",
        "90%",
        "interval",
        "cost",
        "basis",
        "keeps",
        "the",
        "deadline",
    ]
    assert lines[3].startswith("V100-16GB  p3.16xlarge")
    assert lines[4].split()[:3] == ["T4", "-", "16"]
    assert lines[3].index("9 h 12 min") == lines[4].index("9 h 12 min")


def test_table_tells_each_different_warning_the_first_few_of_a_kind() -> None:
    texts = ("workers 4.", "workers 8.", "workers 8.", "workers 16.", "workers 32.")
    forecasts = [
        make_forecast(warnings=[{"code": "beyond_range", "message": text}]) for text in texts
    ]

    assert forecast_table(forecasts).splitlines()[-4:] == [
        "Warning (beyond_range): workers 4.",
        "Warning (beyond_range): workers 8.",
        "Warning (beyond_range): workers 16.",
        "... and 1 more like it; the JSON has all.",
    ]


def test_curve_tells_its_warnings_and_an_efficiency_that_is_small() -> None:
    warning = {"code": "may_not_fit", "message": "It may not fit."}
    point = {
        "value": 4096,
        "forecast": make_forecast(warnings=[warning]),
        "speed_up": 12.3456,
        "efficiency": 0.00301,
        "seconds_saved_per_money": None,
    }

    text = curve_text(
        {"workload": "resnet50", "over": "workers", "points": [point], "measured": []}
    )

    assert " 301.48 USD      12.3     0.00301 " in text
    assert text.endswith("\n\nWarning (may_not_fit): It may not fit.\n")


def test_empty_grid_and_equal_rows_are_tables_too() -> None:
    assert forecast_table([]) == "Nothing was asked.\n"
    assert "workers" in forecast_table([make_forecast(), make_forecast()])


def test_tables_tell_which_limits_each_row_keeps() -> None:
    sure = make_forecast(probability={"deadline": 0.999, "budget": None})
    dear = make_forecast(cost=None, probability={"deadline": 2e-8, "budget": 0.5})

    head, *rows = forecast_table([sure, dear]).splitlines()[2:]

    assert head.endswith("basis  keeps the deadline  keeps the budget")
    assert [row.split()[-2:] for row in rows] == [["99.9%", "-"], ["0.01%", "50%"]]
    assert "under 0.01%" in rows[1]


def test_place_and_purchase_of_a_price_are_told() -> None:
    cost = make_forecast()["cost"]
    price = {**cost["price"], "provider": "aws", "region": "us-west-2", "purchase": "spot"}

    text = forecast_sentences(make_forecast(cost={**cost, "price": price}))

    assert "(p3.16xlarge, aws us-west-2, spot, own, 2026-07-20)" in text


@pytest.mark.parametrize(
    ("extra", "told"), [("0.91", "0.91 USD more"), ("-0.17", "0.17 USD less"), (None, "20 s.")]
)
def test_next_worker_costs_more_or_less(extra: str | None, told: str) -> None:
    gain = {"workers": 9, "seconds_saved": 20.0, "extra_cost": extra, "currency": "USD"}
    best = {"forecast": make_forecast()}
    answer = {"objective": "cost", "considered": 1, "recommended": best, "next_worker": gain}

    last = recommendation_text(answer).splitlines()[-1]

    assert last.startswith("One more worker (9) saves 20 s")
    assert told in last


@pytest.mark.parametrize(("objective", "told"), [("energy", "1.5 kWh"), ("carbon", "0.5 kg CO2e")])
def test_what_is_looked_for_has_a_column(objective: str, told: str) -> None:
    energy = {"kilowatt_hours": 1.5, "kg_co2e": 0.5, "basis": "data_sheet"}
    ranked = [{"forecast": make_forecast(energy=energy)}] * 2
    answer = {"objective": objective, "considered": 2, "recommended": ranked[0], "ranked": ranked}

    table = recommendation_text(answer).splitlines()[-2:]

    assert all(told in row for row in table)


def test_reasons_are_told_where_nothing_is_near() -> None:
    answer = {
        "objective": "cost",
        "considered": 3,
        "recommended": None,
        "nearest": None,
        "rejected_by_reason": {"out_of_memory": 3},
    }

    assert recommendation_text(answer).endswith("\n\nNot qualified: out of memory 3.\n")


def test_recommendation_names_the_best_and_the_ranking() -> None:
    ranked = [{"forecast": make_forecast()}, {"forecast": make_forecast(basis="measured")}]
    answer = {
        "objective": "cost",
        "considered": 12,
        "rejected_count": 10,
        "recommended": ranked[0],
        "ranked": ranked,
    }

    text = recommendation_text(answer)

    assert text.startswith("Best of 12 configurations by cost (10 not qualified):\n\nresnet50")
    assert "interval" in text


def test_single_candidate_is_told_as_one() -> None:
    answer = {
        "objective": "cost_duration_product",
        "considered": 1,
        "recommended": {"forecast": make_forecast()},
    }

    text = recommendation_text(answer)
    hopeless = recommendation_text({"considered": 1, "recommended": None})

    assert text.startswith("Best of 1 configuration by cost duration product (0 not qualified)")
    assert hopeless == "None of 1 configuration meets the constraints.\n"


def test_hopeless_request_names_what_would_have_to_change() -> None:
    answer = {
        "objective": "cost",
        "considered": 3,
        "recommended": None,
        "ranked": [],
        "nearest": {
            "forecast": make_forecast(),
            "changes": [{"constraint": "deadline_s", "message": "The deadline is too short."}],
        },
    }

    text = recommendation_text(answer)

    assert "None of 3 configurations meets the constraints." in text
    assert "- The deadline is too short." in text
    assert recommendation_text({**answer, "nearest": None}).count("\n") == 1
