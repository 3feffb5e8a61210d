"""Wires settings, services and routes into one application; decides nothing."""

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from fastapi import FastAPI
from opentelemetry.trace import TracerProvider
from starlette.types import ASGIApp, Lifespan
from typing_extensions import override

from app.api import health, problems
from app.api.batches.room import BatchRoom
from app.api.encoded.cache import EncodedAnswers
from app.api.metrics.counters import MetricSources
from app.api.middleware.authentication import AuthenticationMiddleware
from app.api.middleware.body import BodyMiddleware
from app.api.middleware.deadlines import DeadlineWatch
from app.api.middleware.exchanges import ExchangeMiddleware
from app.api.middleware.heads import HeadMiddleware
from app.api.middleware.idempotency import IdempotencyMiddleware
from app.api.middleware.limiting import RateLimitMiddleware
from app.api.middleware.metrics import RequestMetrics
from app.api.routing import ROUTES, authorization_of
from app.api.shortcut.asgi import ForecastShortcut
from app.api.shortcut.gathering import Gatherer
from app.api.shortcut.protocol import DirectAnswers
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import require_head
from app.telemetry import exporting, request_telemetry, trace_services
from app.web import pages

_ROUTES: Final = [*ROUTES, *pages.router.routes]


class _Untraced(FastAPI):
    """An application whose own layers are the outermost ones.

    The framework adds three layers around them: for errors, which our outermost layer handles, for
    traces of errors, and for limits of bodies, which another of our layers enforces. Each would
    cost every answer time.
    """

    @override
    def build_middleware_stack(self) -> ASGIApp:
        layer: Any = super().build_middleware_stack()
        while not isinstance(layer, ExchangeMiddleware):
            layer = layer.app
        return layer


def _add_middleware(app: FastAPI, services: Services, watch: DeadlineWatch) -> MetricSources:
    """Wrap the routes, innermost layer first; return the request counts."""
    settings = services.context.settings
    app.state.batch_room = BatchRoom(settings.max_batch_entries)
    answers = app.state.answers = EncodedAnswers(settings.kept_bodies)
    gatherer = Gatherer(services, answers)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(ForecastShortcut, services=services, answers=answers, gatherer=gatherer)
    app.add_middleware(
        IdempotencyMiddleware, service=services.idempotency, authorization_of=authorization_of
    )
    app.add_middleware(BodyMiddleware, max_bytes=settings.max_body_bytes)
    app.add_middleware(
        RateLimitMiddleware, per_minute=settings.rate_limit_per_minute, rates=services.rates
    )
    access = services.access
    app.add_middleware(
        AuthenticationMiddleware, authenticate=access.authenticate, answers_to=access.answers_to
    )
    metrics = app.state.requests = RequestMetrics()
    app.add_middleware(ExchangeMiddleware, watch=watch, metrics=metrics, routes=_ROUTES)
    direct = app.state.direct_answers = DirectAnswers(services, answers, gatherer, metrics)
    counts = (gatherer.forecasts, gatherer.evaluations, direct.forecasts)
    return MetricSources(services, metrics, answers, counts)


def _new_services(settings: Settings) -> Services:
    database = Database(
        settings.url,
        pool_size=settings.database_pool_size,
        statement_timeout_s=settings.request_timeout_s,
    )
    return Services(ServiceContext(database, settings))


def _application(lifespan: Lifespan[FastAPI], tracing: TracerProvider | None) -> FastAPI:
    return (_Untraced if tracing is None else FastAPI)(
        title="Trainfare",
        summary="Forecasts of the time and cost of training machine-learning models",
        version=version("trainfare"),
        lifespan=lifespan,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        separate_input_output_schemas=False,
        # A redirection would contain the caller's Host header, which anyone can set.
        redirect_slashes=False,
        telemetry=request_telemetry(tracing),
        # `app.api.documentation` publishes the document.
        openapi_url=None,
    )


def build_app(
    settings: Settings,
    services: Services | None = None,
    tracing: TracerProvider | None = None,
    siblings: Path | None = None,
) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    settings
        The settings of this process.
    services
        Services to use instead of new ones (tests pass their own clock).
    tracing
        Where spans are sent; None: nowhere.
    siblings
        Where the web processes of one port write their counts; None: this is the only one.

    Raises
    ------
    SchemaMismatchError
        If the database's schema is not at head.
    """
    services = services or _new_services(settings)
    require_head(services.context.database)
    watch = DeadlineWatch(
        request_s=settings.request_timeout_s,
        upload_s=settings.upload_timeout_s,
        max_waiting=settings.max_waiting_requests,
    )
    stopping = services.context.stopping
    exit_stack = ExitStack()
    tracing = tracing or exit_stack.enter_context(exporting(settings))

    def stop(answer_within_s: float) -> None:
        stopping.set()
        watch.stop(answer_within_s)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[Mapping[str, object]]:
        # A thread without a connection would only wait for one.
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = settings.database_pool_size
        # Requests that are rate-limited or traced must go through the layers.
        is_direct = tracing is None and not settings.rate_limit_per_minute
        if siblings is not None:
            app.state.exposition().start()
        direct = {"direct_answers": app.state.direct_answers} if is_direct else {}
        yield {"stop": stop, "requests": app.state.requests, **direct}
        stopping.set()
        if siblings is not None:
            app.state.exposition().close()
        services.close()
        exit_stack.close()

    app = _application(lifespan, tracing)
    if tracing is not None:
        trace_services(services, tracing)
    app.state.services = services
    problems.install(app)
    app.router.routes.extend(_ROUTES)
    sources = _add_middleware(app, services, watch)
    health.install_health(app, sources, siblings)
    return app
