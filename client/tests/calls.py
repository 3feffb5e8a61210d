"""One call of every method of the client, for the synchronous and the asynchronous one alike."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.tests.runs import make_profile, make_run

Done = Callable[[Any], Awaitable[Any]]
CONFIGURATION = {"gpu_type": "T4", "workers": 2}
WORK = {"dataset_size": 3000, "batch_size": 32, "epochs": 1}


async def resolved(answer: Any) -> Any:
    """Return what either client answered: a document, or the list of a listing's items."""
    if inspect.isawaitable(answer):
        return await answer
    if inspect.isasyncgen(answer):
        return [item async for item in answer]
    if inspect.isgenerator(answer):
        return list(answer)
    return answer


@dataclass
class Story:
    """Calls every method once, in an order in which each finds what it needs."""

    client: Any
    workload: str
    folder: Path
    answers: dict[str, Any] = field(default_factory=dict)

    async def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call `resource.method` of the client and remember the answer."""
        target = self.client
        for part in name.split("."):
            target = getattr(target, part)
        self.answers[name] = await resolved(target(*arguments, **options))
        return self.answers[name]

    async def call_all(self) -> dict[str, Any]:
        """Return all answers by method."""
        await self._workload_and_runs()
        await self._fits()
        await self._questions()
        await self._jobs()
        await self._reports()
        await self._prices()
        await self._rest()
        return self.answers

    async def _workload_and_runs(self) -> None:
        await self.call("workloads.declare", self.workload, dataset_unit="samples")
        await self.call("runs.upload_many", make_profile(self.workload), rows_per_request=5)
        uploaded = await self.call("runs.upload", make_run(self.workload, size=500))
        run_id = uploaded["runs"][0]["run_id"]
        file = self.folder / "runs.csv"
        file.write_text(f"workload,duration_seconds,workers\n{self.workload},9.5,1\n")
        await self.call("runs.upload_file", file, dry_run=True)
        await self.call("runs.upload_or_spool", make_run(self.workload, size=600))
        await self.call("runs.all", self.workload, status="succeeded", page_size=5)
        await self.call("runs.get", run_id)
        await self.call("runs.change", run_id, excluded=True, reason="noisy", labels={"a": "b"})

    async def _fits(self) -> None:
        fit = await self.call("fits.request", self.workload, time_budget_s=5, seed=1)
        await self.call("fits.events", fit["fit_id"])
        await self.call("fits.wait", fit["fit_id"])
        await self.call("fits.get", fit["fit_id"], wait_s=1)
        await self.call("fits.cancel", fit["fit_id"])
        await self.call("fits.run", self.workload, time_budget_s=5, publish="never")
        await self.call("fits.all", self.workload)
        await self.call("regressors.all", self.workload)
        await self.call("regressors.get", self.workload, 1)
        await self.call("regressors.publish", self.workload, 1)

    async def _questions(self) -> None:
        question = {"configuration": CONFIGURATION, "work": WORK}
        await self.call("forecasts.make", self.workload, **question, confidence=0.8)
        forecast_id = self.answers["forecasts.make"]["forecast_id"]
        await self.call("forecasts.get", forecast_id)
        batch = [{"ref": 1, "configuration": {"workers": 1}}, {"ref": 2, "workload": "nobody"}]
        await self.call(
            "forecasts.batch", batch, defaults={"workload": self.workload, "work": WORK}
        )
        grid = {"gpu_type": "T4", "workers": [1, 2, 4]}
        await self.call("forecasts.what_if", self.workload, configuration=grid, work=WORK)
        await self.call(
            "forecasts.curve",
            self.workload,
            "workers",
            start=1,
            stop=4,
            work=WORK,
            configuration={"gpu_type": "T4"},
        )
        await self.call("forecasts.recommend", self.workload, work=WORK, objective="duration")

    async def _jobs(self) -> None:
        question = {"configuration": CONFIGURATION, "work": WORK}
        await self.call(
            "forecasts.remaining", self.workload, **question, progress=0.5, elapsed_s=10
        )
        job = {"ref": "a", "workload": self.workload, **question}
        await self.call("schedules.rank", [job], policy="shortest_service_first")
        elastic = {"ref": "a", "workload": self.workload, "work": WORK, "max_workers": 4}
        await self.call("schedules.allocate", {"T4": 4}, [elastic], objective="makespan")
        await self.call("schedules.capacity", queued=[job], capacity={"T4": 4}, hours=2)

    async def _reports(self) -> None:
        fresh = make_run(self.workload, size=2000)
        reported = await self.call("ci.report", [fresh], branch="new", base_branch="main")
        report_id = reported["report_id"]
        await self.call("ci.all", page_size=1)
        await self.call("ci.get", report_id)
        await self.call("ci.acknowledge", report_id, author="me", reason="more layers")
        await self.call("ci.promote", report_id)

    async def _prices(self) -> None:
        price = {"gpu_type": "T4", "price_per_hour": "0.5", "source": "own", "provider": "lab"}
        added = await self.call("prices.add", price)
        await self.call("prices.all", origin="own", page_size=1)
        await self.call("prices.withdraw", added["prices"][0]["price_id"])
        rate = {"from_currency": "EUR", "to_currency": "USD", "rate": "1.08"}
        stored = await self.call("exchange_rates.add", rate)
        await self.call("exchange_rates.all", page_size=1)
        await self.call("exchange_rates.withdraw", stored["exchange_rates"][0]["rate_id"])
        factor = {"provider": "lab", "kg_co2e_per_kwh": "0.05", "source": "our utility"}
        created = await self.call("grid_factors.add", factor)
        await self.call("grid_factors.all", origin="own", page_size=1)
        await self.call("grid_factors.withdraw", created["grid_factors"][0]["factor_id"])
        await self.call("gpus.all")
        await self.call("gpus.get", "NVIDIA A100-SXM4-40GB")

    async def _rest(self) -> None:
        run_id = self.answers["runs.get"]["run_id"]
        await self.call("runs.assessment", run_id)
        await self.call("workloads.get", self.workload)
        await self.call("workloads.all")
        await self.call("workloads.accuracy", self.workload, window="30d")
        target = {"configuration": {"gpu_type": "T4", "workers": 8}, "work": WORK}
        await self.call("workloads.plan_profiling", self.workload, target, runs=2)
        await self.call("is_ready")
        await self.call("openapi")
        await self.call("flush")
        await self.call("runs.remove", run_id)
        await self.call("workloads.remove", self.workload)
