"""Values of parameters that look like one thing and would count as several are told apart."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.uploads import faults, list_runs, make_json_run, post_csv, post_json

HEADER = "workload,duration_seconds,param.depth"


def _types(client: TestClient, workload: str = "a") -> dict[str, str]:
    declared = client.get(f"/v1/workloads/{workload}").json()["parameters"]
    return {name: parameter["type"] for name, parameter in declared.items()}


@pytest.mark.parametrize("word", ["NA", "N/A", "#N/A", "NaN", "null", "-"])
def test_word_for_no_value_makes_no_category_of_a_column_of_numbers(
    client: TestClient, word: str
) -> None:
    answer = post_csv(client, HEADER, f"a,5,{word}", "a,6,18", "a,7,50")

    assert answer.json()["code"] == "schema_drift"
    [fault] = faults(answer)
    assert (fault["row"], fault["field"], fault["value"]) == (1, "param.depth", word)
    assert "Leave it out (in CSV, leave the cell empty)" in fault["remedy"]


def test_rows_with_a_word_for_no_value_are_skipped_as_other_bad_rows(client: TestClient) -> None:
    answer = post_csv(client, HEADER, "a,5,NA", "a,6,18", "a,7,50", on_invalid="skip")

    assert (answer.json()["created"], answer.json()["invalid_count"]) == (2, 1)
    assert _types(client) == {"depth": "number"}


def test_word_for_no_value_is_a_value_where_no_numbers_are(client: TestClient) -> None:
    post_csv(client, HEADER, "a,5,NA", "a,6,NA")
    post_csv(client, HEADER, "b,5,NA", "b,6,shallow")
    client.put("/v1/workloads/c", json={"parameters": {"depth": {"type": "category"}}})
    declared = post_csv(client, HEADER, "c,5,NA", "c,6,18")

    assert [_types(client, name) for name in "abc"] == [{"depth": "category"}] * 3
    assert declared.json()["warnings"] == []


def test_json_text_for_no_value_before_numbers_is_the_one_refused(client: TestClient) -> None:
    runs = [make_json_run(parameters={"depth": value}) for value in ("NaN", 18, 50)]

    answer = post_json(client, runs)

    assert [fault["row"] for fault in faults(answer)] == [1]


@pytest.mark.parametrize("query", [{"dry_run": "true"}, {}])
def test_numbers_and_words_of_a_new_parameter_are_warned_of(
    client: TestClient, query: dict[str, Any]
) -> None:
    rows = ["a,5,18", "a,6,auto", "b,7,18", "b,7,50", "a,8,None"]

    [warning] = post_csv(client, HEADER, *rows, **query).json()["warnings"]

    assert (warning["code"], warning["rows"]) == ("numbers_and_words", [2, 5])
    assert warning["message"].startswith(
        "Parameter 'depth' of workload 'a' has numbers and words ('auto')"
    )


@pytest.mark.parametrize(
    "cells",
    [
        ("0,001", "0,01"),
        ("1,024", "2,048"),
        ("10%", "12.5 %"),
        ("1.234,5", "7,5", ""),
        ("24 GB", "48GiB"),
        ("\u22124", "\u22120.5"),
        ("7B", "1.5B"),
        ("30s", "5 min"),
    ],
)
def test_numbers_that_are_not_written_as_such_are_warned_of(
    client: TestClient, cells: tuple[str, ...]
) -> None:
    rows = [f'a,5,"{cell}"' for cell in cells]

    [warning] = post_csv(client, HEADER, *rows).json()["warnings"]
    again = post_csv(client, HEADER, *rows).json()["warnings"]

    assert (warning["code"], warning["rows"]) == ("numbers_and_words", [1, 2])
    assert "has numbers that are not written as such" in warning["message"]
    assert _types(client) == {"depth": "category"}
    assert again == []


@pytest.mark.parametrize("cells", [("0,001", "sgd"), ("535.104.105", "550.54.15"), ("2x4", "7B")])
def test_words_that_only_begin_as_numbers_do_are_no_news(
    client: TestClient, cells: tuple[str, ...]
) -> None:
    answer = post_csv(client, HEADER, *(f'a,5,"{cell}"' for cell in cells))

    assert answer.json()["warnings"] == []


def test_numbers_and_words_of_a_known_category_are_no_news(client: TestClient) -> None:
    post_csv(client, HEADER, "a,5,deep")

    answer = post_csv(client, HEADER, "a,5,18", "a,6,auto")

    assert answer.json()["warnings"] == []


def test_values_that_differ_by_case_are_warned_of_parameter_by_parameter(
    client: TestClient,
) -> None:
    header = "workload,duration_seconds,param.precision,param.amp"
    rows = ["a,5,fp16,True", "a,6,FP16,true", "a,7,fp16 ,true", "a,8,fp32,", "b,9,FP32,TRUE"]

    precision, amp = sorted(
        post_csv(client, header, *rows).json()["warnings"],
        key=lambda warning: warning["message"],
        reverse=True,
    )

    assert {precision["code"], amp["code"]} == {"spelled_differently"}
    assert (precision["rows"], amp["rows"]) == ([2], [1])
    assert precision["message"] == (
        "Parameter 'precision' of workload 'a' has 'FP16' beside 'fp16': they count as different"
        " values."
    )
    assert len(list_runs(client, "a")) == 4


def test_values_that_look_the_same_and_differ_in_their_encoding_are_warned_of(
    client: TestClient,
) -> None:
    composed, decomposed = "\u00e9t\u00e9", "e\u0301te\u0301"
    header = "workload,duration_seconds,param.mode"

    [warning] = post_csv(
        client, header, f"a,5,{composed}", f"a,6,{composed}", f"a,7,{decomposed}"
    ).json()["warnings"]

    assert (warning["code"], warning["rows"]) == ("spelled_differently", [3])
    assert warning["message"] == (
        r"Parameter 'mode' of workload 'a' has 'e\u0301te\u0301' beside '\xe9t\xe9': they count as"
        " different values."
    )


def test_gpu_types_that_tell_a_number_are_warned_of(client: TestClient) -> None:
    header = "workload,duration_seconds,gpu_type,workers"
    rows = ["a,5,8xA100,8", "a,6,A100,4", "a,7,Tesla T4 x 2,2", "a,8,8xA100,8", "a,9,our-x2,2"]

    warnings = post_csv(client, header, *rows).json()["warnings"]

    assert {warning["code"] for warning in warnings} == {"gpus_counted_in_name"}
    of_a100, of_t4 = warnings
    assert (of_a100["rows"], of_t4["rows"]) == ([1, 4], [3])
    assert "gpu_type 'A100' and workers 8" in of_a100["remedy"]
    assert "gpu_type 'T4' and workers 2" in of_t4["remedy"]


def test_words_for_no_value_in_place_of_a_name_are_warned_of(client: TestClient) -> None:
    header = "workload,duration_seconds,gpu_type,provider"
    rows = ["a,5,#N/A,aws", "a,6,T4,None", "a,7,#N/A,", "a,8,,nanocloud"]

    warnings = post_csv(client, header, *rows).json()["warnings"]

    assert {warning["code"] for warning in warnings} == {"word_for_no_value"}
    of_gpu, of_provider = warnings
    assert (of_gpu["rows"], of_provider["rows"]) == ([1, 3], [2])
    assert of_gpu["message"] == "gpu_type '#N/A' counts as a name of its own."
    assert "leave the cell empty" in of_gpu["remedy"]


@pytest.mark.parametrize("name", ["Batch_Norm", "batchnorm", "batch-norm", "batch norm"])
def test_names_that_differ_only_in_spelling_are_warned_of_where_one_is_new(
    client: TestClient, name: str
) -> None:
    header = f"workload,duration_seconds,param.batch_norm,param.{name}"
    rows = ["a,5,1,", "a,6,,1", "a,7,0,", "b,7,0,"]

    [warning] = post_csv(client, header, *rows, dry_run="true").json()["warnings"]
    post_csv(client, "workload,duration_seconds,param.batch_norm", "a,5,1")
    [later] = post_csv(client, f"workload,duration_seconds,param.{name}", "a,5,1").json()[
        "warnings"
    ]
    again = post_csv(client, header, *rows).json()["warnings"]

    assert warning == {**later, "rows": [2]}
    assert (later["code"], later["rows"]) == ("spelled_differently", [1])
    assert later["message"] == (
        f"Workload 'a' has parameter {name!r} beside 'batch_norm': they count as different"
        " parameters."
    )
    assert again == []


def test_names_that_look_the_same_and_differ_in_their_encoding_are_warned_of(
    client: TestClient,
) -> None:
    run = make_json_run(workload="a", parameters={"t\u00e9": 1, "te\u0301": 2})

    [warning] = post_json(client, [run]).json()["warnings"]

    assert warning["message"].startswith(r"Workload 'a' has parameter 't\xe9' beside 'te\u0301':")


@pytest.mark.parametrize("other", ["conv_11", "layer", "batch_norms"])
def test_names_of_other_words_or_numbers_are_no_news(client: TestClient, other: str) -> None:
    header = f"workload,duration_seconds,param.conv_1_1,param.batch_norm,param.layers,param.{other}"

    assert post_csv(client, header, "a,5,1,2,3,4").json()["warnings"] == []
