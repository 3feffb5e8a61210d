"""SkyPilot's own optimizer chooses by the service's forecasts."""

import logging
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from trainfare_client import Client, ClientSettings, TrainfareError

_PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "skypilot.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_POLICY = "trainfare_client.launchers.skypilot.ForecastPolicy"
_CATALOGUE = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
gpu_1x_t4,T4,1,8,64,0.50,us-east-1,,
gpu_8x_a100,A100,8,124,1800,10.32,us-east-1,,
gpu_4x_h100_sxm5,H100,4,104,900,12.36,us-east-1,,
gpu_8x_h100_sxm5,H100,8,208,1800,23.92,us-east-1,,
cpu_4x_general,,,4,16,0.10,us-east-1,,
"""
# By an hour's price, the T4 is the cheapest, the A100 the second; the training takes 100 s of an
# A100's work, which a T4 does in eight times and an H100 in a third of the time.
_SPEEDS = {"T4": 1 / 8, "A100-40GB": 1.0, "H100": 3.0}
_ANY_OF = [{"accelerators": name} for name in ("T4:1", "A100:8", "H100:4", "H100:8")]


@pytest.fixture(scope="session")
def sky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """SkyPilot with one cloud, whose catalogue is at hand."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("SKY_RUNTIME_DIR", str(home))
        patch.setenv("SKYPILOT_DISABLE_USAGE_COLLECTION", "1")
        from sky.skylet import constants

        folder = home / ".sky" / "catalogs" / constants.CATALOG_SCHEMA_VERSION
        (folder / "lambda").mkdir(parents=True)
        (folder / "lambda" / "vms.csv").write_text(_CATALOGUE)
        (folder / "common").mkdir()
        types = "".join(f"{name},Lambda\n" for name in ("T4", "A100", "H100"))
        (folder / "common" / "accelerators.csv").write_text("AcceleratorName,Clouds\n" + types)

        import sky
        from sky import check, clouds

        patch.setattr(
            check, "get_cached_enabled_clouds_or_refresh", lambda *_, **__: [clouds.Lambda()]
        )
        yield sky


@pytest.fixture
def logged(sky: Any, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What SkyPilot's users read; its loggers do not pass their records on."""
    logger = logging.getLogger("sky")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@pytest.fixture(scope="session")
def measured(service_url: str) -> str:
    """A workload measured on three types of GPU, fitted; 24 GB of memory in batches of 256."""
    with Client(settings=ClientSettings(url=service_url)) as client:
        client.runs.upload(
            {
                "workload": "measured",
                "duration_seconds": 20 + size * 0.1 / (speed * workers * 0.95**workers),
                "configuration": {"gpu_type": gpu, "workers": workers},
                "work": {"dataset_size": size, "batch_size": 256, "epochs": 1},
                "parameters": {"precision": "bf16", "layer-count": 50},
            }
            for gpu, speed in _SPEEDS.items()
            for workers in (1, 2, 4, 8)
            for size in (1_000, 4_000, 16_000)
        )
        client.fits.run("measured")
    return "measured"


def _task(sky: Any, workload: str, resources: object, **variables: str) -> Any:
    environment = {
        "TRAINFARE_WORKLOAD": workload,
        "TRAINFARE_DATASET_SIZE": "64000",
        "TRAINFARE_BATCH_SIZE": "256",
        "TRAINFARE_EPOCHS": "1",
        "TRAINFARE_PARAM_PRECISION": "bf16",
        "TRAINFARE_PARAM_LAYER_COUNT": "50",
        **variables,
    }
    document = {"resources": resources, "envs": environment, "run": "python train.py"}
    return sky.Task.from_yaml_config(document)


def _chosen(task: Any, minimize: str = "COST") -> str:
    """Return the instance that SkyPilot's optimizer chooses."""
    import sky
    from sky.optimizer import Optimizer

    dag = sky.Dag()
    dag.add(task)
    Optimizer.optimize(dag, minimize=sky.OptimizeTarget[minimize], quiet=True)
    return str(task.best_resources.instance_type)


def test_whole_tasks_are_compared_in_place_of_hours(sky: Any, measured: str) -> None:
    from trainfare_client.launchers.skypilot import add_forecasts

    task = _task(sky, measured, {"any_of": _ANY_OF})
    assert _chosen(task) == "gpu_1x_t4"

    estimates = add_forecasts(task)

    assert [estimate.node.name for estimate in estimates] == [
        f"{name}:{count:g}" for each in task.resources for name, count in each.accelerators.items()
    ]
    for estimate in estimates:
        speed = {"T4": 1 / 8, "A100": 1, "H100": 3}[estimate.node.gpu_type or ""]
        workers = estimate.node.gpus
        expected = 20 + 6_400 / (speed * workers * 0.95**workers)
        assert estimate.median_s == pytest.approx(expected, rel=0.25)
        assert estimate.lower_s < estimate.median_s < estimate.upper_s
    assert _chosen(task) == "gpu_4x_h100_sxm5"
    assert _chosen(task, "TIME") == "gpu_8x_h100_sxm5"


def test_policy_of_the_server_reaches_the_optimizer(
    sky: Any, measured: str, logged: pytest.LogCaptureFixture
) -> None:
    task = _task(sky, measured, {"any_of": _ANY_OF})

    admitted = _admitted(task)

    assert _chosen(admitted) == "gpu_4x_h100_sxm5"
    assert f"Trainfare forecasts {measured}:\n  H100:8 " in logged.text


@pytest.mark.parametrize(
    ("request_name", "at_client_side"), [("OPTIMIZE", True), ("VALIDATE", False)]
)
def test_service_is_asked_where_resources_are_chosen(
    sky: Any, measured: str, request_name: str, *, at_client_side: bool
) -> None:
    task = _task(sky, measured, {"any_of": _ANY_OF})

    admitted = _admitted(task, request_name, at_client_side=at_client_side)

    assert admitted.time_estimator_func is None


def test_task_without_a_workload_stays_as_it_is(sky: Any, service_url: str) -> None:
    task = sky.Task.from_yaml_config({"resources": {"any_of": _ANY_OF}, "run": "echo"})

    assert _admitted(task).time_estimator_func is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TRAINFARE_WORKLOAD": "never-measured"}, "There is no workload 'never-measured'"),
        ({"TRAINFARE_EPOCHS": "ten"}, "TRAINFARE_EPOCHS 'ten' is not a number. Correct it."),
        (
            {"TRAINFARE_PARAM_WIDTH": "8"},
            "no parameter TRAINFARE_PARAM_WIDTH. It has TRAINFARE_PARAM_LAYER_COUNT, TRAINFARE_PAR",
        ),
    ],
)
def test_task_without_a_forecast_is_launched_and_told_why(
    sky: Any,
    measured: str,
    logged: pytest.LogCaptureFixture,
    variables: dict[str, str],
    message: str,
) -> None:
    task = _task(sky, measured, {"any_of": _ANY_OF}, **variables)

    assert _chosen(_admitted(task)) == "gpu_1x_t4"
    assert "Trainfare has no forecast of " in logged.text
    assert message in logged.text


def test_launch_does_not_depend_on_the_service(
    sky: Any, logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINFARE_URL", "http://127.0.0.1:9")

    admitted = _admitted(_task(sky, "resnet", {"any_of": _ANY_OF}))

    assert _chosen(admitted) == "gpu_1x_t4"
    assert "Trainfare has no forecast of resnet, so that SkyPilot assumes one hour. " in logged.text


class _Stranger(BaseHTTPRequestHandler):
    """Answers whatever it is asked with an empty document."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the framework's name
        """Say nothing."""


def test_launch_does_not_depend_on_a_sensible_answer(
    sky: Any, logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("TRAINFARE_URL", f"http://127.0.0.1:{server.server_port}")
        admitted = _admitted(_task(sky, "resnet", {"any_of": _ANY_OF}))
        server.shutdown()

    assert _chosen(admitted) == "gpu_1x_t4"
    assert "SkyPilot assumes one hour. Unexpected: KeyError(" in logged.text


@pytest.mark.parametrize(
    ("accelerators", "variables", "message"),
    [
        ("T4:.5", {}, r"T4:0\.5 is a part of an accelerator\. Set TRAINFARE_WORKERS"),
        ("tpu-v5e-8", {}, "tpu-v5e-8:1: Unknown GPU type .* Nearest names: TPU-v5e, .* Use a name"),
        ("T4:1", {"TRAINFARE_WORKERS": "0"}, r"H100:4: .* workers: .* Send 1 or more\."),
    ],
)
def test_one_node_that_cannot_be_forecast_leaves_all_without(
    sky: Any, measured: str, accelerators: str, variables: dict[str, str], message: str
) -> None:
    from trainfare_client.launchers.skypilot import add_forecasts

    ordered = [{"accelerators": "H100:4"}, {"accelerators": accelerators}]
    task = _task(sky, measured, {"ordered": ordered}, **variables)
    with pytest.raises(TrainfareError, match=message):
        add_forecasts(task)

    assert task.time_estimator_func is None


def test_workers_may_be_fewer_than_the_accelerators(sky: Any, measured: str) -> None:
    from trainfare_client.launchers.skypilot import add_forecasts

    resources = {"accelerators": "H100:8"}
    (eight,) = add_forecasts(_task(sky, measured, resources))
    (two,) = add_forecasts(_task(sky, measured, resources, TRAINFARE_WORKERS="2"))

    assert two.median_s > 2 * eight.median_s


def test_what_runs_out_of_memory_is_not_chosen(
    sky: Any, service_url: str, logged: pytest.LogCaptureFixture
) -> None:
    with Client(settings=ClientSettings(url=service_url)) as client:
        client.runs.upload(
            {
                "workload": "bert",
                "duration_seconds": 20 + size * 0.1 / (_SPEEDS[gpu] * workers),
                "status": "out_of_memory" if gpu == "T4" else "succeeded",
                "configuration": {"gpu_type": gpu, "workers": workers},
                "work": {"dataset_size": size, "batch_size": 64 * workers, "epochs": 1},
                "parameters": {"precision": "bf16", "layer-count": 50},
                "resources": {} if gpu == "T4" else {"peak_memory_bytes": 30e9},
            }
            for gpu in _SPEEDS
            for workers in (1, 4, 8)
            for size in (1_000, 4_000, 16_000)
        )
        client.fits.run("bert")
    task = _task(sky, "bert", {"any_of": _ANY_OF}, TRAINFARE_BATCH_SIZE="64")

    admitted = _admitted(task)

    left = sorted(name for each in admitted.resources for name in each.accelerators)
    assert left == ["A100", "H100", "H100"]
    assert "Trainfare: T4:1 probably runs out of GPU memory" in logged.text


def test_nodes_without_accelerators_are_forecast_by_their_instance(
    sky: Any, service_url: str
) -> None:
    from trainfare_client.launchers.skypilot import add_forecasts

    with Client(settings=ClientSettings(url=service_url)) as client:
        client.runs.upload(
            {
                "workload": "forest",
                "duration_seconds": 5 + size / workers,
                "configuration": {"instance_type": "cpu_4x_general", "workers": workers},
                "work": {"dataset_size": size},
            }
            for workers in (1, 2, 4)
            for size in (100, 200, 400, 800)
        )
        client.fits.run("forest")
    resources = {"infra": "lambda", "instance_type": "cpu_4x_general"}
    environment = {"TRAINFARE_WORKLOAD": "forest", "TRAINFARE_DATASET_SIZE": "1600"}
    document = {"resources": resources, "num_nodes": 2, "envs": environment, "run": "python fit.py"}
    task = sky.Task.from_yaml_config(document)

    (estimate,) = add_forecasts(task)

    assert estimate.median_s == pytest.approx(805, rel=0.2)
    assert _chosen(task) == "cpu_4x_general"
    assert task.estimate_runtime(task.best_resources) == estimate.seconds


def test_page_shows_a_configuration_and_a_task_that_work(sky: Any, service_url: str) -> None:
    configuration, task = _BLOCK.findall(_PAGE.read_text())
    assert configuration == f"admin_policy: {_POLICY}\n"
    with Client(settings=ClientSettings(url=service_url)) as client:
        client.runs.upload(
            {
                "workload": "resnet",
                "duration_seconds": 20 + size * 0.1 / (_SPEEDS["H100"] * workers),
                "configuration": {"gpu_type": "H100", "workers": workers},
                "work": {"dataset_size": size, "batch_size": 256, "epochs": 1},
                "parameters": {"precision": "bf16"},
            }
            for workers in (1, 2, 4, 8)
            for size in (1_000, 16_000)
        )
        client.fits.run("resnet")

    admitted = _admitted(sky.Task.from_yaml_str(task))

    assert admitted.time_estimator_func is not None


def _admitted(task: Any, request_name: str = "OPTIMIZE", *, at_client_side: bool = False) -> Any:
    """Return a task as the API server's policy hands it on."""
    from sky import skypilot_config
    from sky.server.requests.request_names import AdminPolicyRequestName
    from sky.utils import admin_policy_utils, config_utils

    config = config_utils.Config.from_dict({"admin_policy": _POLICY})
    with skypilot_config.replace_skypilot_config(config):
        dag, _ = admin_policy_utils.apply(
            task, AdminPolicyRequestName[request_name], at_client_side=at_client_side
        )
    (admitted,) = dag.tasks
    return admitted
