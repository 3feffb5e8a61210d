"""A CI report tells of each row whether its run was stored before."""

from fastapi.testclient import TestClient


def test_the_first_of_equal_rows_is_new(client: TestClient) -> None:
    run = {"workload": "new", "external_id": "1", "duration_seconds": 50.0}

    first, again = (
        client.post("/v1/ci/reports", json={"runs": [run, run]}).json()["runs"] for _ in range(2)
    )

    assert [each["duplicate"] for each in first] == [False, True]
    assert [each["duplicate"] for each in again] == [True, True]
    assert len({each["run_id"] for each in (*first, *again)}) == 1
