"""Runs come as a CSV file and go out as one that can be uploaded again."""

import pytest
from fastapi.testclient import TestClient

from tests.support.uploads import faults, list_runs, post, post_csv

HEADER = (
    "run_id,workload,framework,gpu_type,instance_type,nodes,workers,dataset_size,batch_size,"
    "epochs,duration_seconds,cost_usd,param.precision,param.seq_len,phase.sync_seconds,label.team"
)


def test_columns_become_the_members_of_a_run(client: TestClient) -> None:
    answer = post_csv(
        client,
        HEADER,
        "7,bert,pytorch,T4,g4dn.12xlarge,2,8,0.015625,64,1.5,120.25,3.1,fp16,512,4.5,nlp",
        "8,bert,,,,,,,,,60,,,,,",
        "",
    )

    assert answer.status_code == 201
    empty, full = list_runs(client, "bert")
    assert full["external_id"] == "7"
    assert full["configuration"]["nodes"] == 2
    assert full["work"] == {"dataset_size": 0.015625, "batch_size": 64, "epochs": 1.5}
    assert full["parameters"] == {"framework": "pytorch", "precision": "fp16", "seq_len": 512}
    assert full["phases"] == {"sync_seconds": 4.5}
    assert full["cost"] == {"amount": "3.10", "currency": "USD"}
    assert full["labels"] == {"team": "nlp"}
    assert empty["parameters"] == {}
    assert empty["work"] == {"dataset_size": None, "batch_size": None, "epochs": None}
    assert empty["configuration"]["workers"] == 1


@pytest.mark.parametrize(
    ("header", "missing"),
    [
        ("model,batchsize,speed", {"workload", "duration_seconds"}),
        ("workload,time_per_epoch", {"duration_seconds"}),
        ("workload,started_at,ended_at,speed", set()),
        ("model,duration_seconds", {"workload"}),
    ],
)
def test_header_of_another_tool_is_told_what_every_run_needs(
    client: TestClient, header: str, missing: set[str]
) -> None:
    answer = post_csv(client, header, ",".join("1" for _ in header.split(",")))

    assert answer.status_code == 422
    assert answer.json()["code"] == "unknown_field"
    fields = {fault["field"] for fault in answer.json()["errors"]}
    assert fields - set(header.split(",")) == missing


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_marks_and_line_ends_do_not_matter(
    client: TestClient, mark: bytes, line_end: bytes
) -> None:
    lines = [b"workload,duration_seconds,gpu_type", b'a,"5","T4"', b"a, 6 ,"]

    answer = post(client, mark + line_end.join(lines), "text/csv; charset=utf-8")

    assert answer.json()["created"] == 2
    assert [run["duration_seconds"] for run in list_runs(client, "a")] == [6, 5]


def test_empty_columns_and_rows_of_a_spreadsheet_do_not_count(client: TestClient) -> None:
    rows = ["a,5,,,", ",,,,", "", "a,6", "a,7,,", ",,"]

    answer = post_csv(client, "workload,duration_seconds,,", *rows)

    assert answer.json()["created"] == 3
    assert [run["row"] for run in answer.json()["runs"]] == [1, 2, 3]


@pytest.mark.parametrize("begin", ["\n\n", "\r\n", ",,\n\n"])
def test_empty_lines_before_the_header_do_not_count(client: TestClient, begin: str) -> None:
    table = f"{begin}workload,duration_seconds\na,5\na,x\n"

    answer = post(client, table.encode(), "text/csv", on_invalid="skip")

    assert answer.json()["created"] == 1
    assert [row["row"] for row in answer.json()["invalid"]] == [2]


def test_decimal_commas_move_no_cells(client: TestClient) -> None:
    header = "workload,duration_seconds,workers,dataset_size,batch_size"

    # 100,5 seconds on 8 workers, without a batch size.
    answer = post_csv(client, header, "a,100,8,1000,32", "a,100,5,8,1000,")

    [fault] = faults(answer)
    assert (fault["row"], fault["message"]) == (2, "The row has 6 cells where the header has 5.")
    assert "decimals with a point" in fault["remedy"]


@pytest.mark.parametrize("line", ["sep=,", "sep=,,"])
def test_line_that_states_the_comma_is_passed_over(client: TestClient, line: str) -> None:
    answer = post_csv(client, line, "workload,duration_seconds", "a,5")

    assert answer.json()["created"] == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_recognised(client: TestClient, encoding: str) -> None:
    answer = post(client, "workload,duration_seconds\na,5\n".encode(encoding), "text/csv")

    assert answer.json()["detail"].startswith("The body is text in UTF-16: send text in UTF-8")


@pytest.mark.parametrize("row", ["a,5,,x", "a,5" + "," * 400, "a"])
def test_cells_beside_the_table_are_a_bad_row(client: TestClient, row: str) -> None:
    answer = post_csv(client, "workload,duration_seconds,,", row)

    assert answer.json()["code"] == "invalid_rows"
    assert "cells where the header has 2" in faults(answer)[0]["message"]


def test_unknown_columns_are_refused_with_the_nearest(client: TestClient) -> None:
    answer = post_csv(client, "workload,duration_seconds,batchsize,,gpus", "a,5,8,,1")

    assert answer.status_code == 422
    assert answer.json()["code"] == "unknown_field"
    assert [fault["field"] for fault in faults(answer)] == ["batchsize", "", "gpus"]
    assert "'batch_size'" in faults(answer)[0]["remedy"]
    assert faults(answer)[1]["message"] == "A field has no name."


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"", "no header"),
        (b"\n", "no header"),
        (b"workload,duration_seconds\n", "no runs"),
        (b"workload;duration_seconds\na;5\n", "by commas"),
        (b"workload\tduration_seconds\na\t5\n", "by commas"),
        (b"workload,duration_seconds,run_id,external_id\na,5,1,1\n", "external_id"),
        (b"workload,duration_seconds\n\xe9t\xe9,5\n", "UTF-8"),
        ("workload,duration_seconds\na,5\n".encode("utf-16"), "is text in UTF-16"),
        (b"PK\x03\x04\x14\x00\x06\x00 [Content_Types].xml", "is a spreadsheet or another zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a spreadsheet: send text in UTF-8; save a table"),
        (b"PAR1\x15\x04", "is a Parquet table"),
        (b'[{"workload": "a"}]', "is JSON: send it with the header Content-Type"),
        (b'{"workload": "a"}\n', "application/x-ndjson"),
        (b'workload,duration_seconds\n"a"b,5\n', "quotes"),
        (b'workload,duration_seconds\n"a,5\n' + b"x" * 200_000, "quotes"),
        (b",".join(b"param.p%d" % i for i in range(400)) + b"\n", "columns"),
    ],
)
def test_unreadable_files_are_refused_as_a_whole(
    client: TestClient, content: bytes, hint: str
) -> None:
    answer = post(client, content, "text/csv")

    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_request"
    assert hint in answer.json()["detail"]


def test_every_bad_row_is_named_and_nothing_is_stored(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,duration_seconds,workers,dataset_size",
        "a,5,1,10",
        "a,nan,1.5,ten",
        "a,5",
        "",
        "a,1_000,,",
        ",inf,,",
        "a,0x10,1,10",
        'a,"1,000",1,10',
    )

    assert answer.json()["code"] == "invalid_rows"
    assert "5 of 7 rows" not in answer.json()["detail"]
    named = [(fault["row"], fault.get("field"), fault.get("value")) for fault in faults(answer)]
    assert named == [
        (2, "duration_seconds", "nan"),
        (2, "workers", "1.5"),
        (2, "dataset_size", "ten"),
        (3, None, None),
        (4, "duration_seconds", "1_000"),
        (5, "duration_seconds", "inf"),
        (6, "duration_seconds", "0x10"),
        (7, "duration_seconds", "1,000"),
    ]
    assert client.get("/v1/workloads/a/runs").status_code == 404


def test_a_thousand_faults_are_named_and_all_are_counted(client: TestClient) -> None:
    answer = post_csv(client, "workload,duration_seconds", *["a,-1"] * 1500, "a,1")

    assert "1,500 of 1,501 rows" in answer.json()["detail"]
    assert len(faults(answer)) == 1000


def test_good_rows_are_stored_when_bad_ones_are_skipped(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,run_id,duration_seconds",
        "a,1,5",
        "a,2,-5",
        "a",
        "a,4,6",
        on_invalid="skip",
    )

    body = answer.json()
    assert answer.status_code == 201
    assert (body["created"], body["invalid_count"]) == (2, 2)
    assert [fault["row"] for fault in body["invalid"]] == [2, 3]
    assert [(run["row"], run["external_id"]) for run in body["runs"]] == [(1, "1"), (4, "4")]
    assert len(list_runs(client, "a")) == 2


def test_nothing_is_created_when_all_rows_are_skipped(client: TestClient) -> None:
    answer = post_csv(client, "workload,duration_seconds", "a,-5", on_invalid="skip")

    assert answer.status_code == 200
    assert answer.json()["created"] == 0
    assert client.get("/v1/workloads/a").status_code == 404


def test_dry_run_tells_what_would_be_created(client: TestClient) -> None:
    post_csv(client, "workload,run_id,duration_seconds", "a,1,5")

    answer = post_csv(
        client, "workload,run_id,duration_seconds", "a,1,5", "a,2,6", "b,1,7", dry_run="true"
    )

    body = answer.json()
    assert answer.status_code == 200
    assert (body["created"], body["duplicates"], body["dry_run"]) == (2, 1, True)
    assert [run["run_id"] is None for run in body["runs"]] == [False, True, True]
    assert len(list_runs(client, "a")) == 1
    assert client.get("/v1/workloads/b").status_code == 404


def test_dry_run_refuses_what_an_upload_refuses(client: TestClient) -> None:
    answer = post_csv(client, "workload,duration_seconds", "a,-5", dry_run="true")

    assert answer.json()["code"] == "invalid_rows"


def test_unknown_query_parameters_are_refused(client: TestClient) -> None:
    answer = post_csv(client, "workload,duration_seconds", "a,5", dryrun="true")

    assert answer.json()["code"] == "unknown_field"
    assert "dry_run" in answer.json()["errors"][0]["remedy"]


def test_odd_rows_are_stored_with_a_warning(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,duration_seconds,nodes,workers,phase.sync_seconds,phase.setup_seconds",
        "a,5,2,,,",
        "a,5,1,1,9,",
        "a,5,1,1,1,60",
    )

    warnings = {warning["code"]: warning for warning in answer.json()["warnings"]}
    assert answer.json()["created"] == 3
    assert warnings["more_nodes_than_workers"]["rows"] == [1]
    assert warnings["phase_exceeds_run"]["rows"] == [2]


def test_durations_far_below_their_instants_are_told(client: TestClient) -> None:
    hour = "2026-11-01T10:00:00Z,2026-11-01T11:00:00Z"

    answer = post_csv(
        client,
        "workload,duration_seconds,phase.setup_seconds,started_at,ended_at",
        f"a,60,,{hour}",
        f"a,1.5,30,{hour}",
        f"a,60,2400,{hour}",
        f"a,3000,,{hour}",
        f"a,,,{hour}",
        "a,60,,,",
    )

    [warning] = answer.json()["warnings"]
    assert answer.json()["created"] == 6
    assert (warning["code"], warning["rows"]) == ("shorter_than_span", [1, 2])
    assert "not minutes" in warning["remedy"]


def test_progress_of_a_run_that_counts_as_complete_is_told(client: TestClient) -> None:
    rows = ["a,5,0.5,", "a,5,0.5,succeeded", "a,5,0.5,cancelled", "a,5,1,", "a,5,,"]

    given = post_csv(client, "workload,duration_seconds,progress,status", *rows).json()
    absent = post_csv(client, "workload,duration_seconds,progress", "b,5,0.5").json()

    told = [(each["code"], each["rows"]) for each in given["warnings"] + absent["warnings"]]
    assert told == [("complete_before_the_end", [1, 2]), ("complete_before_the_end", [1])]


def test_swapped_instants_are_shown_as_instants(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,started_at,ended_at",
        "a,2026-11-01T10:00:00Z,2026-11-01T10:00:00+01:00",
    )

    assert faults(answer)[0]["value"] == "2026-11-01T09:00:00Z"


def test_sizes_beyond_the_limit_are_told_the_limit(client: TestClient) -> None:
    answer = post_csv(client, "workload,duration_seconds,dataset_size,workers", "a,5,1e30,2e9")

    said = {fault["field"]: fault["message"] for fault in faults(answer)}
    assert "to 1e18" in said["dataset_size"]
    assert "1,000,000" in said["workers"]


def test_escapes_of_the_database_survive(client: TestClient) -> None:
    value = r"back\slash \N \t"
    post_csv(client, "workload,duration_seconds,gpu_type,label.x", f"a,5,{value},{value}")

    [run] = list_runs(client, "a")
    assert run["configuration"]["gpu_type"] == value
    assert run["labels"]["x"] == value


def test_costs_come_in_dollars_or_with_their_currency(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,duration_seconds,cost_usd,cost_amount,cost_currency",
        "a,1,2.5,,",
        "a,2,,3,eur",
        "a,3,4,,USD",
        "a,4,,,",
    )

    assert answer.status_code == 201, answer.text
    costs = [run["cost"] for run in list_runs(client, "a")]
    assert costs == [
        None,
        {"amount": "4.00", "currency": "USD"},
        {"amount": "3.00", "currency": "EUR"},
        {"amount": "2.50", "currency": "USD"},
    ]


def test_costs_that_contradict_themselves_are_named(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,duration_seconds,cost_usd,cost_amount,cost_currency",
        "a,1,2.5,2.5,USD",
        "a,2,,,EUR",
        "a,3,4,,EUR",
        "a,-4,,5,",
    )

    named = [(fault["row"], fault["field"]) for fault in faults(answer)]
    assert named == [
        (1, "cost_amount"),
        (2, "cost_amount"),
        (3, "cost_amount"),
        (4, "duration_seconds"),
    ]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("duration_seconds", "1e-100"),
        ("dataset_size", "1e-300"),
        ("resource.samples_to_target", "1e-300"),
    ],
)
def test_number_too_small_is_refused(client: TestClient, column: str, cell: str) -> None:
    columns = {"workload": "bert", "duration_seconds": "1", column: cell}

    answer = post_csv(client, ",".join(columns), ",".join(columns.values()))

    assert answer.status_code == 422
    [fault] = faults(answer)
    assert (fault["row"], fault["field"]) == (1, column)


@pytest.mark.parametrize("column", ["duration_minutes", "duration_ms", "duration_hours"])
def test_other_unit_of_time_is_told_to_be_converted(client: TestClient, column: str) -> None:
    answer = post_csv(client, f"workload,{column}", "bert,12")

    [fault] = faults(answer)
    assert "Convert to seconds and send 'duration_seconds'" in fault["remedy"]


def test_space_that_nobody_sees_is_named(client: TestClient) -> None:
    gpu_type = "own\N{NO-BREAK SPACE}GPU"
    uploaded = post_csv(client, "workload,duration_seconds,gpu_type", f"a,5,{gpu_type}")
    priced = client.post("/v1/prices", json={"gpu_type": gpu_type, "price_per_hour": "1"})

    for answer in (uploaded, priced):
        [fault] = faults(answer)
        assert "the first is U+00A0 (no-break space)" in fault["message"]
