"""The Action, the GitLab template and the lines of curl, run as a build runs them."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from trainfare_client import Client

from client.tests.forge import Forge, running_forge
from client.tests.runs import make_profile, make_run

pytestmark = pytest.mark.lengthy

_ROOT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")

_PYTHON_OF_WINDOWS = f"""#!/bin/sh
# Makes a virtual environment whose programs are in the folder Scripts.
{sys.executable} "$@" || exit
mv "$3/bin" "$3/Scripts"
sed -i '1s|/bin/python|/Scripts/python|' "$3/Scripts/pip"
# This pip will nevertheless install into bin.
ln -s ../bin/trainfare-client "$3/Scripts/trainfare-client"
"""


@pytest.fixture
def forge() -> Iterator[Forge]:
    with running_forge() as forge:
        yield forge


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a runner has; pip takes the client's requirements from this environment, no index."""
    kept = ("PATH", "LANG", "OMP_NUM_THREADS")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A scratch repository with one commit."""
    folder = tmp_path / "nets"
    folder.mkdir()
    for command in (
        ["init", "--quiet", "--initial-branch", "deeper"],
        ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet",
         "--allow-empty", "-m", "Deepen the stem"],
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@dataclass
class StepResult:
    """What a step ended with, wrote and handed on."""

    code: int
    log: str
    outputs: dict[str, str]


@dataclass
class Runner:
    """Runs a composite action's shell steps as GitHub does."""

    repository: Path
    environment: dict[str, str]
    folder: Path
    github: dict[str, str]
    summary: str = ""
    steps: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, **inputs: str) -> StepResult:
        """Run the action until a step fails."""
        action = yaml.safe_load((_ROOT / "action.yml").read_text())
        known = {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()}
        required = {name for name, entry in action["inputs"].items() if entry.get("required")}
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert required <= given.keys() <= known.keys()
        context = {f"github.{name}": value for name, value in self.github.items()}
        for name, value in {**known, **given}.items():
            context[f"inputs.{name}"] = _evaluated(value, context)
        code, log = 0, ""
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash"
            code, output = self._step(step, context)
            log += output
            if code:
                break
        outputs = {
            name: _evaluated(entry["value"], context) for name, entry in action["outputs"].items()
        }
        return StepResult(code, log, outputs)

    def _step(self, step: dict[str, Any], context: dict[str, str]) -> tuple[int, str]:
        files = {name: self.folder / name for name in ("summary", "output")}
        for file in files.values():
            file.write_text("")
        environment = {
            **self.environment,
            **{name: _evaluated(value, context) for name, value in step.get("env", {}).items()},
            "GITHUB_STEP_SUMMARY": str(files["summary"]),
            "GITHUB_OUTPUT": str(files["output"]),
        }
        code, output = _bash(step["run"], self.repository, environment)
        self.summary += files["summary"].read_text()
        for line in files["output"].read_text().splitlines():
            name, _, value = line.partition("=")
            context[f"steps.{step['id']}.outputs.{name}"] = value
        return code, output


def _evaluated(text: str, context: Mapping[str, str]) -> str:
    """Return a text with its expressions; an output that no step handed on is empty."""
    return _EXPRESSION.sub(
        lambda match: context.get(match[1], "") if match[1].startswith("steps.")
        else context[match[1]],
        text,
    )  # fmt: skip


def _bash(script: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    answer = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout


@pytest.fixture
def runner(repository: Path, environment: dict[str, str], forge: Forge, tmp_path: Path) -> Runner:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    repo = {"full_name": "ada/nets"}
    event = {
        "pull_request": {
            "number": 17,
            "head": {"ref": "deeper", "sha": commit, "repo": repo},
            "base": {"ref": "main", "repo": repo},
        }
    }
    (tmp_path / "event.json").write_text(json.dumps(event))
    action = tmp_path / "action"
    shutil.copytree(
        _ROOT / "client", action / "client", ignore=shutil.ignore_patterns("*.egg-info", "build")
    )
    environment |= {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": "ada/nets",
        "GITHUB_API_URL": forge.url,
        "GITHUB_RUN_ID": "8841",
        "RUNNER_TEMP": str(tmp_path),
        "TRAINFARE_SPOOL": str(tmp_path / "spool.jsonl"),
    }
    github = {"token": forge.token, "action_path": str(action)}
    return Runner(repository, environment, tmp_path, github)


@pytest.fixture
def api_key(service_database: str) -> str:
    """A key of the project that the client without a key sees."""
    answer = subprocess.run(
        [sys.executable, "-m", "app.cli", "keys", "create", "--name", "ci",
         "--scope", "runs:write", "--json"],
        env={**os.environ, "TRAINFARE_DATABASE_URL": service_database},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    return str(json.loads(answer.stdout)["token"])


def write_runs(folder: Path, workload: str, *, factor: float, build: str) -> None:
    usual = make_run(workload, workers=2, size=4000, external_id=build)
    run = {**usual, "duration_seconds": factor * usual["duration_seconds"]}
    (folder / f"{build}.json").write_text(json.dumps([run]))


def fit(client: Client, workload: str) -> None:
    client.runs.upload(make_profile(workload))
    client.fits.wait(client.fits.request(workload, time_budget_s=5, seed=1)["fit_id"])


def test_action_reports_from_the_first_run_to_a_failed_build(
    runner: Runner, forge: Forge, service_url: str, client: Client, workload: str
) -> None:
    for build, factor in (("first", 1.0), ("usual", 1.0), ("slow", 1.7)):
        write_runs(runner.repository, workload, factor=factor, build=build)

    first = runner.run(url=service_url, runs="first.json")
    fit(client, workload)
    usual = runner.run(url=service_url, runs="usual*.json\n")
    slow = runner.run(url=service_url, runs="slow.json", runs_per_month="30")

    assert (first.code, usual.code, slow.code) == (0, 0, 1), first.log + usual.log + slow.log
    assert [entry.outputs["verdict"] for entry in (first, usual, slow)] == [
        "insufficient_data", "pass", "fail",
    ]  # fmt: skip
    (comment,) = forge.bodies(17)
    assert Path(slow.outputs["comment-file"]).read_text() == comment
    assert comment.startswith(f"<!-- trainfare:ci {workload} -->\n### Training cost: slower")
    assert "| **fail** |" in comment
    assert runner.summary.count("### Training cost:") == 3
    assert "trainfare:ci" not in runner.summary
    assert slow.log.count("::error title=Trainfare::") == 1
    report = client.ci.get(slow.outputs["report-id"])
    assert report["branch"] == "deeper"  # type: ignore[typeddict-item] # a field among others
    assert len(list(client.runs.all(workload, excluded=True))) == 3


def test_action_is_patient_while_the_service_is_away_unless_it_is_strict(
    runner: Runner, workload: str
) -> None:
    write_runs(runner.repository, workload, factor=1.0, build="lonely")

    patient = runner.run(url="http://127.0.0.1:9", runs="lonely.json")
    strict = runner.run(url="http://127.0.0.1:9", runs="lonely.json", strict="true")
    missing = runner.run(url="http://127.0.0.1:9", runs="nowhere.csv", comment="false")

    assert (patient.code, strict.code, missing.code) == (0, 3, 2)
    assert patient.outputs["verdict"] == "unavailable"
    assert "::warning title=Trainfare::Nothing was judged" in patient.log
    assert (
        "::error title=Trainfare::nowhere.csv cannot be read: No such file or directory."
        in missing.log
    )


def test_action_needs_no_newer_bash_than_macos_has_and_no_folder_bin(
    runner: Runner, workload: str
) -> None:
    write_runs(runner.repository, workload, factor=1.0, build="first")
    write_runs(runner.repository, workload, factor=1.0, build="second")
    old_bash, python = runner.folder / "old_bash", runner.folder / "python"
    old_bash.write_text("enable -n mapfile readarray\n")
    runner.environment["BASH_ENV"] = str(old_bash)
    python.write_text(_PYTHON_OF_WINDOWS)
    python.chmod(0o755)

    answer = runner.run(url="http://127.0.0.1:9", runs="fir*.json\nsecond.json", python=str(python))

    assert answer.code == 0, answer.log
    assert answer.outputs["verdict"] == "unavailable"


def test_action_reports_what_a_collector_kept_in_an_earlier_step(
    runner: Runner, service_url: str, client: Client, workload: str
) -> None:
    call = f"with record({workload!r}, dataset_size=10, epochs=1):\n    pass\n"
    script = runner.repository / "train.py"
    script.write_text(f"from trainfare_client import record\n{call}")
    earlier = runner.environment | {
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "client"), runner.environment["PYTHONPATH"]]),
        "TRAINFARE_OFFLINE": "1",
        "TRAINFARE_URL": service_url,
    }
    training = _bash(f"{sys.executable} train.py", runner.repository, earlier)
    workloads_before = list(client.workloads.all())

    reported = runner.run(url=service_url, from_spool="true", workload=workload)

    assert (training[0], reported.code) == (0, 0), training[1] + reported.log
    assert "`ci report --from-spool`" in training[1]
    assert workload not in [entry["workload"] for entry in workloads_before]
    (run,) = client.runs.all(workload)
    assert run["labels"]["git_branch"] == "deeper"


def test_gitlab_template_reports_and_edits_the_note(
    environment: dict[str, str],
    repository: Path,
    forge: Forge,
    service_url: str,
    client: Client,
    workload: str,
) -> None:
    job = yaml.safe_load((_ROOT / "templates" / "gitlab-ci.yml").read_text())[".trainfare-report"]
    variables = {
        **environment,
        **job["variables"],
        "TRAINFARE_URL": service_url,
        "TRAINFARE_CLIENT": str(_ROOT / "client"),
        "TRAINFARE_RUNS": "slow.json",
        "GITLAB_CI": "true",
        "CI_JOB_URL": workload,
        "CI_COMMIT_SHA": "abc123",
        "CI_MERGE_REQUEST_IID": "5",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "deeper",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_PROJECT_ID": "42",
        "CI_API_V4_URL": forge.url,
        "GITLAB_TOKEN": forge.token,
    }
    fit(client, workload)
    write_runs(repository, workload, factor=1.7, build="slow")
    forge.write(5, f"<!-- trainfare:ci {workload} -->\nof an earlier pipeline")

    code, log = _bash("\n".join(job["script"]), repository, variables)

    (note,) = forge.bodies(5)
    assert code == 1, log
    assert "The comment was edited." in log
    assert note == (repository / job["artifacts"]["paths"][0]).read_text()
    assert "**fail**" in note


@pytest.mark.parametrize(("factor", "expected"), [(1.0, 0), (1.7, 1)])
def test_six_lines_of_curl_end_as_the_gate_says(
    environment: dict[str, str],
    repository: Path,
    service_url: str,
    client: Client,
    workload: str,
    api_key: str,
    factor: float,
    expected: int,
) -> None:
    page = (_ROOT / "docs" / "ci.md").read_text()
    (block,) = re.findall(r"^```sh\n(curl .*?)^```$", page, re.MULTILINE | re.DOTALL)
    fit(client, workload)
    write_runs(repository, workload, factor=factor, build="run")
    runs = json.loads((repository / "run.json").read_text())
    (repository / "report.json").write_text(json.dumps({"commit": "1f2e", "runs": runs}))
    asked = {**environment, "TRAINFARE_URL": service_url, "TRAINFARE_API_KEY": api_key}

    code, log = _bash(f"{block}echo 'The step goes on.'\n", repository, asked)
    comment = (repository / "comment.md").read_text()
    lenient, _ = _bash(f"set +e\n{block}", repository, {**asked, "TRAINFARE_API_KEY": "unknown"})

    assert len(block.splitlines()) <= 6
    assert code == expected, log
    assert lenient == 22, "The service refused the report."
    assert "### Training cost" in comment
