"""GPU names through the door."""

import pytest
from fastapi.testclient import TestClient

pytestmark = pytest.mark.lengthy


def test_directory_lists_data_sheets_ambiguous_and_unspecified_names(client: TestClient) -> None:
    runs = [
        {"workload": "w", "duration_seconds": 1, "gpu_type": gpu}
        for gpu in ("V100", "rig-7", "Tesla T4")
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201

    directory = client.get("/v1/gpus").json()

    assert directory["unspecified"] == ["V100", "rig-7"]
    boards = ["V100-16GB", "V100-16GB-PCIe", "V100-32GB", "V100-32GB-PCIe"]
    assert {"name": "V100", "variants": boards} in directory["ambiguous"]
    assert {gpu["gpu_type"] for gpu in directory["gpus"]} > {"T4", "H100", "MI300X"}
    assert client.get("/v1/gpus/rig-7").json()["specified"] is False


def test_boards_of_a_chip_tell_of_a_board_without_a_data_sheet(client: TestClient) -> None:
    runs = [
        {"workload": "w", "duration_seconds": 1, "gpu_type": gpu}
        for gpu in ("V100", "rig-7", "A100-60GB")
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    boards = ["A100-40GB", "A100-40GB-PCIe", "A100-80GB", "A100-80GB-PCIe"]

    directory = client.get("/v1/gpus").json()
    board = client.get("/v1/gpus/A100-60GB").json()

    assert directory["unspecified"] == ["A100-60GB", "V100", "rig-7"]
    assert directory["stand_ins"]["A100-60GB"] == boards
    assert set(directory["stand_ins"]) == {"A100-60GB", "V100"}
    assert (board["specified"], board["stand_ins"]) == (False, boards)
    assert client.get("/v1/gpus/rig-7").json()["stand_ins"] == []


@pytest.mark.parametrize("name", ["T4", "nvidia-tesla-t4", "NVIDIA%20T4", "tesla t4"])
def test_gpu_is_shown_by_any_spelling(client: TestClient, name: str) -> None:
    gpu = client.get(f"/v1/gpus/{name}").json()

    assert (gpu["gpu_type"], gpu["specified"], gpu["memory_gib"]) == ("T4", True, 16)


def test_ambiguous_spelling_lists_the_choices(client: TestClient) -> None:
    answer = client.get("/v1/gpus/A100")

    assert (answer.status_code, answer.json()["code"]) == (422, "ambiguous_gpu")
    assert "A100-80GB-PCIe" in answer.json()["detail"]


def test_unknown_name_comes_with_the_nearest(client: TestClient) -> None:
    answer = client.get("/v1/gpus/H1000")

    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_gpu")
    assert "H100" in answer.json()["detail"]
