"""What commands print of answers: forecasts, recommendations, fits, workloads, uploads."""

from typing import Any

import pytest

from app.cli.asking import (
    say_configuration,
    show_fit,
    show_forecasts,
    show_recommendation,
    show_upload,
    show_workloads,
)
from app.cli.output import print_table
from app.cli.wording import money


def _forecast(workers: int, **changes: Any) -> dict[str, Any]:
    return {
        "configuration": {"gpu_type": "T4", "instance_type": "g4dn.xlarge", "workers": workers},
        "work": {"dataset_size": 1000.0},
        "parameters": {"precision": "fp16"},
        "duration_seconds": {"median": 60.0, "lower": 50.0, "upper": 70.0, "confidence": 0.9},
        "cost": None,
        "basis": "measured",
        "warnings": [{"code": "price_unknown", "message": "No price.", "remedy": "Give one."}],
    } | changes


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_what_forecasts_share_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    show_forecasts([_forecast(1), _forecast(2)])

    captured = capsys.readouterr()
    assert captured.err.startswith("For gpu_type T4, instance_type g4dn.xlarge, dataset_size 1,000")
    assert captured.err.count("T4") == 1
    assert "T4" not in captured.out
    assert captured.err.count("No price. Give one.") == 1
    assert "1 more of the 2" in captured.err


def test_each_figure_stands_below_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    cost = {"currency": "EUR", "median": "2.00", "lower": "1.50", "upper": "2.50"}

    show_forecasts([_forecast(1, cost=cost), _forecast(2, basis="transferred")])

    assert _lines(capsys) == [
        "workers  duration  90% interval        cost                     basis",
        "1        1 min     50 s to 1 min 10 s  2.00 EUR (1.50 to 2.50)  measured",
        "2        1 min     50 s to 1 min 10 s  -                        transferred",
    ]


def test_warnings_are_said_to_hold_only_where_they_are_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    forecasts = [
        _forecast(workers, warnings=[{"code": "beyond_range", "message": f"workers {workers}."}])
        for workers in (4, 8, 8)
    ]

    show_forecasts(forecasts)

    assert capsys.readouterr().err.splitlines()[-2:] == [
        "Warning: workers 4.",
        "Warning: workers 8. The same applies to 1 more of the 3.",
    ]


def test_what_was_asked_besides_has_columns_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = _forecast(
        1,
        probability={"deadline": 0.991, "budget": None},
        explanation=[{"term": "compute", "share": 0.996}, {"term": "setup", "share": 0.004}],
        taught_by=[],
    )
    show_forecasts([first, _forecast(2, probability={"deadline": 0.5, "budget": 0.25})])
    asked = capsys.readouterr().out
    show_forecasts([_forecast(1), _forecast(2)])
    plain = capsys.readouterr().out

    head, *rows = asked.splitlines()
    assert "basis     keeps the deadline  keeps the budget  where the time goes" in head
    assert rows[0].split()[-4:] == ["99.1%", "-", "compute", "100%"]
    assert rows[1].split()[-3:] == ["50%", "25%", "-"]
    assert plain.splitlines()[0].split()[-1] == "basis"


def test_confidence_is_told_with_its_digits(capsys: pytest.CaptureFixture[str]) -> None:
    band = {"median": 60.0, "lower": 50.0, "upper": 70.0, "confidence": 0.9995}
    nearly_sure = _forecast(1, duration_seconds=band)
    ranked = [{"forecast": nearly_sure}]

    show_recommendation({"recommended": ranked[0], "ranked": ranked, "objective": "cost"})

    assert capsys.readouterr().out.count("99.95% interval") == 2


def test_ways_to_buy_capacity_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    places = [
        {"gpu_type": "T4", "workers": 2, "provider": "aws", "region": "us-west-2", "purchase": way}
        for way in ("on_demand", "spot")
    ]
    energy = {"kilowatt_hours": 1.5, "kg_co2e": None}
    ranked = [{"forecast": _forecast(2, configuration=each, energy=energy)} for each in places]

    show_recommendation({"recommended": ranked[1], "ranked": ranked, "objective": "energy"})

    sentence, head, *rows = capsys.readouterr().out.splitlines()
    assert sentence.startswith("Recommended: 2 x T4 (aws us-west-2, spot): 1 min")
    assert [line.split()[0] for line in (head, *rows)] == ["purchase", "on_demand", "spot"]
    assert all("1.5 kWh" in row for row in rows)


def test_nearest_candidate_says_what_would_have_to_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change = {"constraint": "deadline_s", "message": "The deadline is too short."}
    nearest = {"forecast": _forecast(4), "changes": [change]}
    answer: dict[str, Any] = {"recommended": None, "considered": 3, "nearest": nearest}
    answer["rejected_by_reason"] = {"deadline": 2, "out_of_memory": 1}

    show_recommendation(answer)
    show_recommendation({**answer, "nearest": None})

    captured = capsys.readouterr()
    assert captured.out.startswith("None of the 3 considered meets the request.")
    assert "Nearest: 4 x T4 (g4dn.xlarge): 1 min (90% interval 50 s to 1 min 10 s)" in captured.out
    assert "The deadline is too short." in captured.err
    assert captured.err.count("Not qualified: deadline 2, out of memory 1.") == 2


def test_best_candidate_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    cost = {"currency": "EUR", "median": "2.00", "lower": "1.50", "upper": "2.50"}
    ranked = [{"forecast": _forecast(4, cost=cost)}, {"forecast": _forecast(2)}]

    show_recommendation({"recommended": ranked[0], "ranked": ranked, "objective": "cost"})

    assert _lines(capsys)[0] == (
        "Recommended: 4 x T4 (g4dn.xlarge): 1 min (90% interval 50 s to 1 min 10 s),"
        " cost 2.00 EUR (1.50 to 2.50)"
    )


def test_places_are_told_in_few_words() -> None:
    assert say_configuration({"workers": 1}) == "1 worker"
    assert say_configuration({"workers": 4, "instance_type": "m5.large"}) == "4 workers (m5.large)"


def test_unknown_cost_is_a_dash() -> None:
    assert money(None) == "-"


def test_fit_tells_the_weight_and_error_of_each_candidate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    candidates = [{"regressor": "log_linear", "weight": 0.75, "mape": 0.0312}]
    fit = {"fit_id": "fit_1", "workload": "w", "state": "succeeded", "regressor_version": 3}

    show_fit({**fit, "candidates": candidates})

    captured = capsys.readouterr()
    assert captured.err == "Fit fit_1 of w succeeded: version 3.\n"
    assert [line.split() for line in captured.out.splitlines()] == [
        ["regressor", "weight", "error", "(MAPE)"],
        ["log_linear", "75%", "3.1%"],
    ]


def test_workloads_are_told_with_all_their_runs(capsys: pytest.CaptureFixture[str]) -> None:
    workload = {
        "workload": "w",
        "runs": {"succeeded": 3, "failed": 2},
        "published_version": 7,
        "dataset_unit": "rows",
        "description": "nightly",
    }

    show_workloads([workload])

    assert _lines(capsys) == [
        "workload  runs  published version  dataset unit  description",
        "w         5     7                  rows          nightly",
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"created": 4, "duplicates": 1}, "x.csv: 4 created, 1 duplicate.\n"),
        (
            {"created": 4, "duplicates": 2, "dry_run": True},
            "x.csv: 4 to be created, 2 duplicates; none was stored.\n",
        ),
    ],
)
def test_upload_tells_what_it_stored(
    capsys: pytest.CaptureFixture[str], answer: dict[str, Any], said: str
) -> None:
    show_upload("x.csv", {**answer, "replayed": False})

    assert capsys.readouterr().err == said


def test_upload_tells_skipped_rows_and_oddities(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"row": 7, "field": "workers", "message": "must be positive"}
    show_upload(
        "x.csv",
        {
            "created": 1, "duplicates": 0, "invalid": [row] * 23, "invalid_count": 23,
            "warnings": [{"message": "an odd unit"}], "replayed": False,
        },
    )  # fmt: skip

    stderr = capsys.readouterr().err
    assert stderr.count("row 7, workers: must be positive") == 20
    assert "... and 3 more; --json prints them." in stderr
    assert "an odd unit" in stderr


def test_table_shows_lists_and_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"scopes": ["a", "b"], "last": None}])

    assert "a, b" in capsys.readouterr().out
