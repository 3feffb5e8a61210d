"""Small event logs in the form of Spark's own."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_MS = 1_795_259_000_000
_SQL = "org.apache.spark.sql.execution.ui.SparkListener"


@dataclass
class SparkStory:
    """What happens in an application; instants are seconds after its start."""

    app_id: str = "app-20261101-0001"
    name: str = "Word Count"
    conf: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add("LogStart", **{"Spark Version": "4.0.1"})
        self.add("EnvironmentUpdate", **{"Spark Properties": self.conf})
        self.add(
            "ApplicationStart",
            **{"App Name": self.name, "App ID": self.app_id, "Timestamp": START_MS, "User": "me"},
        )

    def add(self, kind: str, **fields: Any) -> "SparkStory":
        """Add an event."""
        self.events.append({"Event": f"SparkListener{kind}", **fields})
        return self

    def add_sql(self, kind: str, **fields: Any) -> "SparkStory":
        """Add an event of Spark SQL."""
        self.events.append({"Event": _SQL + kind, **fields})
        return self

    def executor(self, name: str, host: str, *, cores: int = 4, at_s: float = 0) -> "SparkStory":
        """An executor comes."""
        info = {"Host": host, "Total Cores": cores}
        return self.add(
            "ExecutorAdded",
            **{"Timestamp": _ms(at_s), "Executor ID": name, "Executor Info": info},
        )

    def executor_goes(self, name: str, *, at_s: float) -> "SparkStory":
        """An executor goes."""
        return self.add("ExecutorRemoved", **{"Timestamp": _ms(at_s), "Executor ID": name})

    def job(self, *, from_s: float, to_s: float, failure: str | None = None) -> "SparkStory":
        """A job of one stage runs."""
        number = sum(event["Event"].endswith("JobStart") for event in self.events)
        self.add("JobStart", **{"Job ID": number, "Submission Time": _ms(from_s)})
        self.add("StageCompleted", **{"Stage Info": {"Stage ID": number}})
        result: dict[str, Any] = {"Result": "JobSucceeded"}
        if failure is not None:
            result = {"Result": "JobFailed", "Exception": {"Message": failure}}
        return self.add(
            "JobEnd", **{"Job ID": number, "Completion Time": _ms(to_s), "Job Result": result}
        )

    def task(
        self, *, from_s: float, to_s: float, run_s: float, reason: str = "Success"
    ) -> "SparkStory":
        """A task runs."""
        metrics = {
            "Executor Run Time": round(run_s * 1000),
            "JVM GC Time": 100,
            "Input Metrics": {"Bytes Read": 1000, "Records Read": 10},
            "Output Metrics": {"Bytes Written": 5, "Records Written": 1},
            "Shuffle Read Metrics": {
                "Fetch Wait Time": 200,
                "Remote Bytes Read": 30,
                "Local Bytes Read": 40,
            },
            "Shuffle Write Metrics": {
                "Shuffle Bytes Written": 70,
                "Shuffle Write Time": 300_000_000,
            },
        }
        return self.add(
            "TaskEnd",
            **{
                "Task End Reason": {"Reason": reason},
                "Task Info": {"Launch Time": _ms(from_s), "Finish Time": _ms(to_s)},
                "Task Metrics": metrics,
            },
        )

    def end(self, at_s: float, **fields: Any) -> "SparkStory":
        """The application ends."""
        return self.add("ApplicationEnd", **{"Timestamp": _ms(at_s), **fields})

    @property
    def text(self) -> str:
        """The log."""
        return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in self.events)

    def write(self, file: Path) -> Path:
        """Write the log to a file and return the file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text)
        return file


def word_count(**changes: Any) -> SparkStory:
    """Return an application of one minute on two executors of four cores."""
    story = SparkStory(**changes)
    story.executor("1", "node-a").executor("2", "node-b")
    story.job(from_s=10, to_s=50)
    for _ in range(8):
        story.task(from_s=10, to_s=50, run_s=39)
    return story


def _ms(seconds: float) -> int:
    return START_MS + round(seconds * 1000)
