"""A browser, and real services that it may visit."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

from tests.support import patient_http
from tests.support.server import running_service

_CHROMIUM = shutil.which("chromium")
_ARGUMENTS = ["--no-sandbox", "--disable-background-networking"]
_TIMEOUT_MS = 30_000
_COLUMNS = (
    "workload,external_id,gpu_type,workers,dataset_size,batch_size,epochs,duration_seconds,"
    "param.precision"
)
PUBLISHED = "resnet50"
MARKUP = "<img src=nowhere onerror=alert(1)>"

OpenPage = Callable[..., Page]


def forecast_document(service_url: str, question: str) -> dict[str, Any]:
    """Return the answer of the API to a question about the published workload, a query string."""
    answer = patient_http.get(f"{service_url}/v1/workloads/{PUBLISHED}/forecast?{question}")
    document: dict[str, Any] = answer.json()
    return document


def measured_csv(workload: str) -> str:
    """Return runs of a known law on two GPU types, some with a name that is markup."""
    lines = [_COLUMNS]
    for gpu_type, speed in (("T4", 1.0), ("V100-16GB", 2.5)):
        for workers in (1, 2, 4, 8):
            for size in (100_000, 400_000, 1_600_000):
                seconds = 30 + size / (200 * speed * workers) + 3 * workers
                name = f"{MARKUP}{gpu_type}-{workers}-{size}"
                lines.append(
                    f"{workload},{name},{gpu_type},{workers},{size},256,2,{seconds:.1f},fp16"
                )
    return "\n".join(lines) + "\n"


def publish(url: str, runs: list[dict[str, Any]]) -> None:
    """Upload runs of one workload and fit it quickly."""
    patient_http.post(f"{url}/v1/runs", json=runs).raise_for_status()
    _fit(url, runs[0]["workload"], "log_linear")


def upload_csv(service: str, text: str) -> None:
    """Upload a CSV file of runs, some of which are new."""
    csv = {"Content-Type": "text/csv"}
    stored = patient_http.post(f"{service}/v1/runs", content=text, headers=csv)
    assert stored.status_code == 201, stored.text


def _fit(url: str, workload: str, *regressors: str) -> None:
    fit = patient_http.post(
        f"{url}/v1/workloads/{workload}/fits",
        json={"regressors": regressors},
        headers={"Prefer": "wait=60"},
    )
    assert fit.json()["state"] == "succeeded", fit.text


def drop(page: Page, name: str, text: str) -> None:
    """Give the page a file to upload."""
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": text.encode()})


def answer_of(page: Page) -> str:
    """Return the sentence that answers the question, once it stands there."""
    sentence = page.locator("#answer .sentence")
    expect(sentence).to_be_visible()
    return sentence.inner_text()


def answer_with_a_key(route: Route) -> None:
    """Want a key, whichever, and ask the service, which wants none, without it."""
    headers = {**route.request.headers}
    if headers.pop("authorization", None):
        route.continue_(headers=headers)
    else:
        route.fulfill(status=401, body="{}")


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=_TIMEOUT_MS)


def _copy(template: Path, folder: Path) -> str:
    shutil.copy(template, folder / "trainfare.db")
    return f"sqlite:///{folder / 'trainfare.db'}"


# Playwright's synchronous interface keeps an event loop running in this thread: it must end with
# the module, or no test after it could run a loop of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if _CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        yield browser
        browser.close()


class Watch:
    """What went wrong in a browser: errors in the console, requests that left the origin."""

    def __init__(self, context: BrowserContext) -> None:
        self.errors: list[str] = []
        self.requested: list[str] = []
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", self._hear)
        context.on("request", lambda request: self.requested.append(request.url))

    def _hear(self, message: object) -> None:
        kind, text = getattr(message, "type", ""), getattr(message, "text", "")
        # The browser itself notes each refusal of the API; the page shows those to the reader.
        if kind in {"error", "warning"} and "Failed to load resource" not in text:
            self.errors.append(text)

    def check(self, origins: set[str]) -> None:
        assert self.errors == []
        left = {url for url in self.requested if urlsplit(url).scheme in {"http", "https"}}
        assert {"{0.scheme}://{0.netloc}".format(urlsplit(url)) for url in left} <= origins


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open URLs in windows of a size and scheme; at the end nothing must have gone wrong."""
    opened: list[tuple[BrowserContext, Watch]] = []
    origins: set[str] = set()

    def open_url(
        url: str, *, width: int = 1440, scheme: str = "light", touch: bool = False
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            has_touch=touch,
        )
        context.set_default_timeout(_TIMEOUT_MS)
        opened.append((context, Watch(context)))
        origins.add("{0.scheme}://{0.netloc}".format(urlsplit(url)))
        page = context.new_page()
        page.goto(url)
        return page

    yield open_url
    for context, watch in opened:
        context.close()
        watch.check(origins)


def _remove_workloads(service: str) -> None:
    url = f"{service}/v1/workloads"
    while found := patient_http.get(url).json()["workloads"]:
        for workload in found:
            patient_http.delete(f"{url}/{workload['workload']}").raise_for_status()


# Services and fitters take seconds to start: tests share two, and leave them without a workload.
@pytest.fixture(scope="session")
def services_to_visit(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Yield the URLs of two services with a fitter."""
    one, two = (_copy(sqlite_template, tmp_path_factory.mktemp("visited")) for _ in range(2))
    with (
        running_service(one, "--with-fitter") as first,
        running_service(two, "--with-fitter") as second,
    ):
        yield first.url, second.url


@pytest.fixture
def empty_service(services_to_visit: tuple[str, str]) -> Iterator[str]:
    """Yield the URL of a service without a workload, with a fitter."""
    url, _ = services_to_visit
    yield url
    _remove_workloads(url)


@pytest.fixture(scope="module")
def published_service(services_to_visit: tuple[str, str]) -> Iterator[str]:
    """Yield the URL of a service that has a regressor for `PUBLISHED`."""
    _, url = services_to_visit
    upload_csv(url, measured_csv(PUBLISHED))
    _fit(url, PUBLISHED, "log_linear", "scaling_law")
    yield url
    _remove_workloads(url)


@pytest.fixture
def factored_service(published_service: str) -> Iterator[str]:
    """Yield the URL of a service that knows what a kilowatt-hour stands for everywhere."""
    factor = {"kg_co2e_per_kwh": "0.4", "valid_from": "2026-01-01", "source": "the utility"}
    stored = patient_http.post(f"{published_service}/v1/grid-factors", json=factor)
    assert stored.status_code == 201, stored.text
    yield published_service
    factor_id = stored.json()["grid_factors"][0]["factor_id"]
    patient_http.delete(f"{published_service}/v1/grid-factors/{factor_id}")


@pytest.fixture
def declare_currency(published_service: str) -> Iterator[Callable[[str], None]]:
    """Let `PUBLISHED` be priced in another currency, until the test ends."""

    def declare(currency: str) -> None:
        url = f"{published_service}/v1/workloads/{PUBLISHED}"
        patient_http.put(url, json={"currency": currency}).raise_for_status()

    yield declare
    declare("USD")
