"""The CI hook: fresh runs are stored and judged at once."""

import re
from typing import Any, NoReturn

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.domain.availability_errors import StorageUnavailableError
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, law_seconds, publish_regressor

URL = "/v1/ci/reports"


def run(seconds: float, workers: int = 4, **fields: object) -> dict[str, Any]:
    return {
        "duration_seconds": seconds,
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": 2000.0},
        "parameters": {"precision": "fp16"},
    } | fields


def report(client: TestClient, *runs: dict[str, Any], **fields: object) -> dict[str, Any]:
    answer = client.post(URL, json={"workload": "fitted", "runs": list(runs)} | fields)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def usual(workers: int = 4) -> float:
    return law_seconds(workers, 2000.0)


@pytest.fixture
def published(services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)


def excluded_runs(client: TestClient) -> list[dict[str, Any]]:
    answer = client.get("/v1/workloads/fitted/runs", params={"excluded": "true"})
    runs: list[dict[str, Any]] = answer.json()["runs"]
    return runs


@pytest.mark.usefixtures("published")
def test_a_usual_run_passes_and_is_stored(client: TestClient) -> None:
    answer = report(client, run(usual(), external_id="a/1"), commit="1f2e", branch="main")

    stored = client.get(f"/v1/runs/{answer['runs'][0]['run_id']}").json()
    assert (answer["verdict"], answer["exit_code"]) == ("pass", 0)
    assert answer["runs"][0]["expected_seconds"]["lower"] < usual()
    assert answer["runs"][0]["verdict"] == "pass"
    assert stored["labels"] == {"git_sha": "1f2e", "git_branch": "main"}
    assert not stored["excluded"]


@pytest.mark.usefixtures("published")
def test_a_much_slower_run_fails(client: TestClient) -> None:
    answer = report(client, run(1.6 * usual()), run(usual()))

    assert (answer["verdict"], answer["exit_code"]) == ("fail", 1)
    assert [each["verdict"] for each in answer["runs"]] == ["fail", "pass"]
    assert answer["runs"][0]["ratio"] == pytest.approx(1.6, rel=0.1)
    assert answer["runs"][0]["p_value"] < 0.01
    assert "Slower than forecast" in answer["summary"]


@pytest.mark.usefixtures("published")
def test_a_faster_run_never_fails(client: TestClient) -> None:
    answer = report(client, run(0.3 * usual()))

    assert (answer["verdict"], answer["exit_code"]) == ("pass", 0)
    assert answer["summary"].startswith("Faster than forecast: ")
    assert "(-70%) on 4 x T4" in answer["summary"]
    assert "### Training cost: faster than forecast" in answer["comment_markdown"]


@pytest.mark.usefixtures("published")
def test_runs_on_either_side_of_their_intervals_are_told_apart(client: TestClient) -> None:
    runs = run(usual()), run(0.3 * usual(2), 2), run(1.6 * usual(1), 1)

    answer = report(client, *runs, gate={"min_effect": 1.0})

    assert answer["summary"] == (
        "As forecast: 1 run within what was expected, 1 run faster,"
        " 1 run slower, by no more than the gate allows."
    )


@pytest.mark.usefixtures("published")
def test_the_gate_decides_what_matters(client: TestClient) -> None:
    slow = run(1.6 * usual())

    lenient = report(client, slow, gate={"min_effect": 1.0})

    assert lenient["verdict"] == "pass"


def test_a_first_report_passes_and_says_what_is_missing(client: TestClient) -> None:
    answer = report(client, run(100.0))
    second = report(client, run(100.0), gate={"on_insufficient_data": "fail"})

    assert (answer["verdict"], answer["exit_code"]) == ("insufficient_data", 0)
    assert answer["runs"][0]["reason"] == "These are the first runs of the workload."
    assert second["exit_code"] == 1
    assert "ask for a fit" in second["summary"]
    assert second["summary"].endswith("The gate fails builds that cannot be judged.")
    assert client.get("/v1/workloads/fitted").json()["runs"] == {"succeeded": 2}


@pytest.mark.usefixtures("published")
def test_a_database_that_falls_silent_lets_no_build_pass(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall_silent(*_arguments: object) -> NoReturn:
        raise StorageUnavailableError("gone")

    monkeypatch.setattr(RegressorCache, "get", fall_silent)

    answer = client.post(URL, json={"workload": "fitted", "runs": [run(10 * usual())]})

    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert client.get(URL).json()["reports"] == []


@pytest.mark.usefixtures("published")
def test_a_run_that_did_not_succeed_is_stored_but_not_judged(client: TestClient) -> None:
    answer = report(client, run(usual(), status="failed"), run(usual()))

    assert [each["verdict"] for each in answer["runs"]] == ["insufficient_data", "pass"]
    assert "1 run within what was expected" in answer["summary"]
    assert answer["summary"].endswith("; 1 more could not be judged.")
    assert answer["verdict"] == "pass"


@pytest.mark.usefixtures("published")
def test_runs_of_a_branch_stay_out_of_fits_until_promoted(client: TestClient) -> None:
    answer = report(client, run(usual()), branch="faster", base_branch="main", pull_request=17)
    before = excluded_runs(client)

    promoted = client.post(f"{URL}/{answer['report_id']}:promote").json()

    assert [entry["run_id"] for entry in before] == [answer["runs"][0]["run_id"]]
    assert "branch faster" in before[0]["excluded_reason"]
    assert promoted["promoted_at"] is not None
    assert excluded_runs(client) == []


@pytest.mark.usefixtures("published")
def test_runs_of_another_branch_do_not_change_what_is_expected(client: TestClient) -> None:
    for number in range(4):
        report(client, run((0.8 + number / 1000) * usual()), branch="faster", base_branch="main")

    answer = report(client, run(usual()), branch="main", base_branch="main")

    assert answer["runs"][0]["expected_seconds"]["median"] == pytest.approx(usual(), rel=0.02)


@pytest.mark.usefixtures("published")
def test_runs_that_somebody_keeps_out_stay_out_when_their_branch_is_promoted(
    client: TestClient,
) -> None:
    runs = run(usual()), run(2 * usual()), run(3 * usual(), excluded_reason="warm-up")
    answer = report(client, *runs, branch="faster", base_branch="main")
    noisy = answer["runs"][1]["run_id"]
    client.patch(f"/v1/runs/{noisy}", json={"excluded": True, "reason": "a neighbour"})

    client.post(f"{URL}/{answer['report_id']}:promote").raise_for_status()

    kept = {each["run_id"]: each["excluded_reason"] for each in excluded_runs(client)}
    assert kept == {noisy: "a neighbour", answer["runs"][2]["run_id"]: "warm-up"}


@pytest.mark.lengthy
@pytest.mark.usefixtures("published")
def test_small_shifts_that_add_up_are_a_warning(client: TestClient, clock: FakeClock) -> None:
    rng = np.random.default_rng(1)

    def seconds(factor: float) -> float:
        return usual() * factor * float(np.exp(rng.normal(0, 0.03)))

    calm = []
    for _ in range(30):
        clock.advance(seconds=60)
        calm.append(report(client, run(seconds(1.0)))["verdict"])
    crept = []
    for _ in range(20):
        clock.advance(seconds=60)
        crept.append(report(client, run(seconds(1.04))))

    assert calm.count("pass") >= 29
    warned = [each for each in crept if each["drift"] and each["verdict"] == "warn"]
    assert warned
    assert warned[-1]["drift"][0]["direction"] == "slower"
    match = re.search(r"creep up: \+\S+ since \S+, over (\d+) runs\.", warned[-1]["summary"])
    assert match is not None
    assert int(match[1]) < warned[-1]["drift"][0]["runs"] - 15


@pytest.mark.usefixtures("published")
def test_an_acknowledged_change_is_the_new_normal(client: TestClient, clock: FakeClock) -> None:
    slow = [run(1.6 * usual(), external_id=f"slow-{n}") for n in range(3)]
    failed = report(client, *slow, branch="deeper", base_branch="main")

    taken = client.post(
        f"{URL}/{failed['report_id']}:acknowledge",
        json={"author": "ada", "reason": "the model has twice the layers"},
    ).json()
    clock.advance(seconds=60)
    later = report(client, run(1.6 * usual()))
    slower = report(client, run(2.4 * usual()))

    assert failed["verdict"] == "fail"
    assert taken["acknowledged"]["author"] == "ada"
    assert client.get(f"{URL}/{failed['report_id']}").json() == taken
    assert excluded_runs(client) == []
    assert later["verdict"] == "pass"
    assert later["runs"][0]["ratio"] == pytest.approx(1.0, abs=0.1)
    assert slower["verdict"] == "fail"


@pytest.mark.usefixtures("published")
def test_an_acknowledged_change_stays_normal_when_a_fit_has_seen_little_of_it(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    failed = report(client, run(1.3 * usual()))
    client.post(
        f"{URL}/{failed['report_id']}:acknowledge",
        json={"author": "ada", "reason": "a new augmentation"},
    )
    clock.advance(seconds=60)
    fit(services, "fitted")
    clock.advance(seconds=60)

    later = [report(client, run(1.3 * usual(workers), workers)) for workers in (4, 2, 8)]

    assert failed["verdict"] == "fail"
    assert [each["verdict"] for each in later] == ["pass", "pass", "pass"]


@pytest.mark.usefixtures("published")
def test_the_comment_is_one_table_with_a_hidden_marker(client: TestClient) -> None:
    answer = report(client, run(1.6 * usual(), external_id="a|b`<c>"), commit="1f2e", branch="x|y")

    lines = answer["comment_markdown"].splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert lines[0] == "<!-- trainfare:ci fitted -->"
    assert len(rows) == 3
    assert all(row.replace("\\|", "").count("|") == 8 for row in rows)
    assert "**fail**" in rows[2]
    assert "| 4 x T4, dataset 2,000 |" in rows[2]
    assert f"| +{answer['runs'][0]['ratio'] - 1:.1%} |" in rows[2]
    assert answer["comment_markdown"].count("<c>") == rows[2].count(r"`a\|b'<c>`") == 1
    origin = f"{answer['report_id']}; regressors: fitted v1; commit 1f2e; branch x"
    assert lines[-1] == f"<sub>Trainfare report {origin}\\|y</sub>"


def test_names_in_the_comment_make_no_links_and_call_nobody(client: TestClient) -> None:
    picture = "![free](https://other.example/x.png)\\"
    odd = run(9.0, configuration={"gpu_type": picture, "workers": 4})

    comment = report(client, odd, commit="1f2e", branch="fix/@ada/x#12")["comment_markdown"]
    assert "\\[free\\](https" in comment
    assert "[free]" not in comment
    assert not [link for link in ("https://", "@ada", "#12") if link in comment]
    rows = [line for line in comment.splitlines() if line.startswith("|")]
    assert rows[2].replace("\\|", "").count("|") == 7


def test_names_in_the_comment_are_shown_as_they_are(client: TestClient) -> None:
    odd = run(
        9.0, external_id="a|b <c>", configuration={"gpu_type": "my_*gpu*&#64;x", "workers": 4}
    )

    comment = report(client, odd)["comment_markdown"]

    assert "`a\\|b <c>`" in comment
    assert "my\\_\\*gpu\\*&amp;#" in comment


@pytest.mark.usefixtures("published")
def test_many_runs_are_cut_in_the_comment(client: TestClient) -> None:
    answer = report(client, *[run(usual(), external_id=f"n{n}") for n in range(60)])

    one_more = report(client, *[run(usual(), external_id=f"m{n}") for n in range(51)])

    [cut] = [row for row in answer["comment_markdown"].splitlines() if "10 more runs" in row]
    assert (cut.startswith("| ... |"), cut.count("|")) == (True, 8)
    assert "| 1 more run |" in one_more["comment_markdown"]
    assert len(answer["runs"]) == 60


@pytest.mark.usefixtures("published")
def test_text_and_markdown_are_answered_on_demand(client: TestClient) -> None:
    body = {"workload": "fitted", "runs": [run(1.6 * usual())]}

    text = client.post(URL, json=body, headers={"accept": "text/plain"})
    markdown = client.post(URL, json=body, headers={"accept": "text/markdown"})

    assert text.text.startswith("Slower than forecast: ")
    assert text.headers["trainfare-verdict"] == "fail"
    assert markdown.text.startswith("<!-- trainfare:ci fitted -->")
    assert markdown.headers["content-type"].startswith("text/markdown")


@pytest.mark.usefixtures("published")
def test_a_retry_with_its_key_stores_nothing_twice(client: TestClient) -> None:
    body = {"workload": "fitted", "runs": [run(usual())]}
    headers = {"idempotency-key": "build-8841"}

    first = client.post(URL, json=body, headers=headers)
    repeated = client.post(URL, json=body, headers=headers)

    assert repeated.headers["idempotent-replayed"] == "true"
    assert repeated.json() == first.json()
    assert len(client.get(URL).json()["reports"]) == 1
    assert client.get("/v1/workloads/fitted").json()["runs"] == {"succeeded": 13}


@pytest.mark.usefixtures("published")
def test_a_run_that_was_stored_before_is_judged_again(client: TestClient) -> None:
    first = report(client, run(usual(), external_id="a/1"))
    repeated = report(client, run(usual(), external_id="a/1"))

    assert [first["runs"][0]["duplicate"], repeated["runs"][0]["duplicate"]] == [False, True]
    assert repeated["runs"][0]["run_id"] == first["runs"][0]["run_id"]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"runs": [{"duration_seconds": -1}], "workload": "w"}, "invalid_rows", None),
        ({"runs": [{"duration_seconds": 1}]}, "invalid_rows", None),
        ({"runs": ["x"], "workload": "w"}, "invalid_rows", None),
        ({"runs": [{"duration_second": 1}], "workload": "w"}, "unknown_field", None),
        ({"runs": [], "workload": "w"}, "invalid_request", "runs"),
        ({"runs": [run(1.0)], "workload": "w", "comit": "x"}, "unknown_field", "comit"),
        (
            {"runs": [run(1.0)], "workload": "w", "gate": {"min_effect": -1}},
            "invalid_request",
            None,
        ),
    ],
)
def test_a_bad_report_names_what_is_wrong_and_stores_nothing(
    client: TestClient, body: dict[str, Any], code: str, field: str | None
) -> None:
    answer = client.post(URL, json=body)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, code)
    assert problem["errors"][0]["remedy"]
    if field is not None:
        assert problem["errors"][0]["field"] == field
    assert client.get("/v1/workloads").json()["workloads"] == []
    assert client.get(URL).json()["reports"] == []


@pytest.mark.usefixtures("published")
def test_the_fit_that_the_policy_starts_is_shown(client: TestClient) -> None:
    client.put("/v1/workloads/fitted", json={"refit_policy": {"mode": "auto", "min_new_runs": 1}})

    answer = report(client, run(usual()))

    assert answer["fit"]["state"] == "queued"
    assert answer["fit"]["workload"] == "fitted"


@pytest.mark.parametrize("action", ["", ":promote", ":acknowledge"])
def test_an_unknown_report_is_named(client: TestClient, action: str) -> None:
    body = {"author": "ada", "reason": "because"} if action == ":acknowledge" else None
    method = "POST" if action else "GET"

    answer = client.request(method, f"{URL}/ci_none{action}", json=body)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_page_token_of_another_list_is_refused(client: TestClient) -> None:
    assert client.get(URL, params={"page_token": "run_1"}).status_code == 422


@pytest.mark.usefixtures("published")
def test_reports_are_listed_newest_first(client: TestClient, clock: FakeClock) -> None:
    names = []
    for _ in range(3):
        clock.advance(seconds=1)
        names.append(report(client, run(usual()))["report_id"])

    first = client.get(URL, params={"page_size": 2}).json()
    second = client.get(URL, params={"page_token": first["next_page_token"]}).json()

    listed = [each["report_id"] for each in first["reports"] + second["reports"]]
    assert listed == names[::-1]
