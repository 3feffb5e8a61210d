"""The settings of the service: one frozen class, read from the environment in the entry points."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.domain.access import Scope
from app.domain.addresses import is_safe_url, without_login
from app.domain.spelling import nearest_field

SignatureAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Public-key algorithms only: with a shared key, whoever verifies tokens could sign them."""
MEBIBYTE = 1 << 20
_HOUR_S: Final = 3600.0
_DAY_S: Final = 24 * _HOUR_S
_YEAR_HOURS: Final = 366 * 24.0
_DRIVERS: Final = ("sqlite", "postgres", "postgresql", "postgresql+psycopg")
_POOL_MODES: Final = ("session", "transaction")
_SEVERAL_HOSTS: Final = re.compile(
    r"(?P<login>postgres\w*(\+\w+)?://([^@/?]*@)?)(?P<hosts>[^@/?]+,[^@/?]+)"
    r"(?P<name>/[^?]*)?(\?(?P<query>.*))?"
)
_PREFIX: Final = "TRAINFARE_"
_OTHER_VARIABLES: Final = frozenset(
    {
        "URL", "API_KEY", "KEY", "TIMEOUT_S", "SPOOL", "OFFLINE",
        "WORKLOAD", "EXTERNAL_ID", "CLIENT", "RUNS", "OPTIONS", "PUBLISHED_PORT",
        "TEST_POSTGRESQL_URL", "TEST_PYTHON",
    }
)  # fmt: skip
"""Variables that the client, the CI actions, compose and the tests read."""

_KUBERNETES_VARIABLE: Final = re.compile(
    r"TRAINFARE_(\w+_)?(SERVICE_(HOST|PORT)|PORT_\d)", re.ASCII
)
_LAST_PORT: Final = 65_535
_RAY_ADDRESS: Final = re.compile(r"(ray://)?(\[[0-9A-Fa-f:]+\]|[\w.-]+):[0-9]{1,5}", re.ASCII)


def _with_host_parameters(url: str) -> str:
    """Convert a URL with several hosts from libpq's form to SQLAlchemy's."""
    match = _SEVERAL_HOSTS.fullmatch(url)
    if match is None:
        return url
    hosts = "&".join(f"host={host}" for host in match["hosts"].split(","))
    query = f"&{match['query']}" if match["query"] else ""
    return f"{match['login']}{match['name'] or '/'}?{hosts}{query}"


def _check_database_url(url: str) -> str:
    url = _with_host_parameters(url)
    try:
        is_valid = not url or _is_usable(make_url(url))
    except (ArgumentError, ValueError):
        is_valid = False
    if not is_valid:
        # The value is not repeated: it may hold a password.
        raise ValueError("is neither sqlite:///PATH nor postgresql://USER:PASSWORD@HOST:PORT/NAME")
    if url and "@" in (make_url(url).host or ""):
        # Errors name the host: here it begins with the rest of the password.
        raise ValueError("has a login with an @: write it as %40")
    if url and make_url(url).query.get("pool_mode", "session") not in _POOL_MODES:
        raise ValueError("has a pool_mode that is neither session nor transaction")
    return url


def _is_usable(url: URL) -> bool:
    """Whether it names a usable database; one in memory would be private to a process."""
    is_file = url.database not in {None, "", ":memory:"}
    return url.drivername in _DRIVERS and (is_file or url.get_backend_name() != "sqlite")


def _check_port(port: object) -> object:
    if isinstance(port, str) and port.startswith("tcp://"):
        raise ValueError(
            f"{port!r} is what Kubernetes sets for a Service named trainfare: set"
            " enableServiceLinks: false in the pod, or give its container TRAINFARE_PORT"
        )
    return port


def _check_ray_address(address: str) -> str:
    is_valid = _RAY_ADDRESS.fullmatch(address) is not None
    if not is_valid or int(address.rpartition(":")[2]) > _LAST_PORT:
        raise ValueError(
            f"{without_login(address)!r} is neither ray://HOST:PORT nor HOST:PORT, without a login"
        )
    return address


def check_endpoint(endpoint: str) -> str:
    """Return the address of a collector; `ValueError` if it is not one."""
    shown = without_login(endpoint)
    try:
        parts = urlsplit(endpoint)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"{shown!r} is neither http://HOST:PORT nor https://HOST:PORT")
    return endpoint


def unknown_variables(environment: Iterable[str]) -> dict[str, str | None]:
    """Return the variables with our prefix that nothing reads, each with the name it may stand for.

    Those that Kubernetes sets for a Service named trainfare are ignored.

    Examples
    --------
    >>> unknown_variables(["TRAINFARE_REQUIRE_KEY", "TRAINFARE_URL", "HOME"])
    {'TRAINFARE_REQUIRE_KEY': 'TRAINFARE_REQUIRE_KEYS'}
    """
    settings = [f"{_PREFIX}{name.upper()}" for name in Settings.model_fields]
    known = {*settings, *(_PREFIX + name for name in _OTHER_VARIABLES)}
    return {
        name: nearest_field(name, settings)
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in known and not _KUBERNETES_VARIABLE.match(name)
    }


class Settings(BaseSettings):
    """Settings with the prefix `TRAINFARE_` (`TRAINFARE_DATABASE_URL`, ...)."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, frozen=True, extra="ignore", populate_by_name=True
    )

    data_dir: Path = Field(Path("var"), description="folder of the SQLite database")
    database_url: Annotated[str, AfterValidator(_check_database_url)] | None = Field(
        None,
        description="SQLAlchemy URL (sqlite:///..., postgresql+psycopg://...); "
        "default: SQLite in the data folder",
        repr=False,
    )
    host: str = Field("127.0.0.1", min_length=1, description="address the service listens on")
    port: Annotated[int, BeforeValidator(_check_port)] = Field(
        8000, ge=0, le=65535, description="port the service listens on; 0: any free"
    )
    web_workers: int = Field(1, ge=1, le=256, description="processes that answer requests")
    require_keys: bool | None = Field(
        None,
        description="demand API keys or tokens; default: beyond a loopback address, and with an"
        " issuer of tokens",
    )
    database_pool_size: int = Field(
        20, ge=1, le=1000, description="connections (and threads) of one web process"
    )
    database_patience_s: float = Field(
        0.5,
        ge=0,
        le=_HOUR_S,
        description="how long an answer from memory waits for a silent database",
    )
    max_body_bytes: int = Field(
        64 * MEBIBYTE, ge=1024, description="largest body, counted after decompression"
    )
    request_timeout_s: float = Field(
        30.0, gt=0, le=_DAY_S, description="how long an answer may take to begin; then 503"
    )
    upload_timeout_s: float = Field(
        300.0,
        gt=0,
        le=_DAY_S,
        description="the same for uploads of runs, prices, rates and CI reports",
    )
    max_waiting_requests: int = Field(
        200, ge=1, description="requests of a web process that wait for a thread; then 503"
    )
    max_batch_entries: int = Field(
        40_000,
        ge=1,
        description="entries of batches that a web process works on at once; then 503",
    )
    rate_limit_per_minute: int = Field(
        0, ge=0, description="requests per key, minute and process; 0: unlimited"
    )
    idempotency_hours: float = Field(
        24.0, gt=0, le=_YEAR_HOURS, description="how long answers are replayed"
    )
    idempotency_bytes: int = Field(
        256 * MEBIBYTE,
        ge=0,
        description="bytes of answers to questions that are kept for a project; what has no room"
        " is computed again",
    )
    idempotency_lock_s: float = Field(
        30.0,
        gt=0,
        le=_HOUR_S,
        description="how long a crashed request blocks the retry with its key",
    )
    regressor_cache_size: int = Field(
        4096, ge=1, description="regressors a web process keeps in memory"
    )
    regressor_cache_bytes: int = Field(
        2**28,
        ge=0,
        description="bytes of their artefacts, with 50 kB more for each; in memory they take up to"
        " twice as much",
    )
    answer_cache_size: int = Field(
        8192,
        ge=1,
        le=1_000_000,
        description="answers of forecasts a web process keeps in memory: half by the words that"
        " asked, half by what was asked",
    )
    regressor_refresh_s: float = Field(
        1.0,
        ge=0,
        le=_DAY_S,
        description="how old the knowledge of published versions, prices, rates and grid factors"
        " may be",
    )
    metrics_workloads: int = Field(
        0,
        ge=0,
        le=1000,
        description="workloads that /metrics names with error and coverage of their forecasts;"
        " 0: none",
    )
    fit_time_budget_s: float = Field(60.0, gt=0, le=3600, description="default budget of a fit")
    fitter_poll_s: float = Field(
        0.5, gt=0, le=_HOUR_S, description="pause between looks for queued fits"
    )
    fitter_processes: int = Field(1, ge=1, le=256, description="fits a fitter computes at once")
    ray_address: Annotated[str, AfterValidator(_check_ray_address)] | None = Field(
        None,
        description="Ray cluster that computes the fits (ray://HOST:10001 from outside, "
        "HOST:6379 from a node of it); default: processes of the fitter's own machine",
    )
    lease_s: float = Field(
        30.0, gt=0, le=_DAY_S, description="a fitter that is silent this long loses its fit"
    )
    fit_max_attempts: int = Field(3, ge=1, description="starts of a fit before it counts as failed")
    oidc_issuer: str | None = Field(
        None, description="URL of the OpenID Connect issuer whose tokens are accepted besides keys"
    )
    oidc_audience: str | None = Field(None, description="audience that the tokens must name")
    oidc_jwks_url: str | None = Field(
        None, description="where the issuer's keys are; default: as its discovery document says"
    )
    oidc_algorithms: tuple[SignatureAlgorithm, ...] = Field(
        ("RS256", "ES256"), description="signatures that are accepted (JSON)", min_length=1
    )
    oidc_leeway_s: float = Field(
        30.0, ge=0, le=300, description="how much the issuer's clock may differ"
    )
    oidc_project_claim: str = Field("project", description="claim with the project's name")
    oidc_project: str | None = Field(
        None, description="project of tokens without that claim; default: they are refused"
    )
    oidc_scope_claim: str = Field(
        "scope", description="claim with scopes or groups: words of a text, or a list"
    )
    oidc_scope_map: dict[str, tuple[Scope, ...]] = Field(
        {}, description="what each word of that claim allows (JSON); default: scopes by name"
    )
    otlp_endpoint: Annotated[str, AfterValidator(check_endpoint)] | None = Field(
        None,
        description="collector of traces (http://HOST:4318); default: OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="lowest level that is logged"
    )
    log_format: Literal["text", "json"] = Field("text", description="format of a log line")

    @model_validator(mode="after")
    def _check_issuer(self) -> Self:
        if self.oidc_issuer is None:
            if token_settings := self._token_settings():
                # Without an issuer the service would be open, contrary to the intention.
                names = ", ".join(f"{_PREFIX}{name.upper()}" for name in token_settings)
                raise ValueError(f"{names}: no token is accepted without {_PREFIX}OIDC_ISSUER")
            return self
        if not self.oidc_audience:
            raise ValueError(
                f"{_PREFIX}OIDC_ISSUER needs {_PREFIX}OIDC_AUDIENCE: the audience of its tokens"
            )
        for name in ("oidc_issuer", "oidc_jwks_url"):
            url = getattr(self, name)
            if url is not None and not is_safe_url(url):
                raise ValueError(
                    f"{_PREFIX}{name.upper()}: {without_login(url)!r} is neither https://... nor on"
                    " this machine"
                )
        return self

    def _token_settings(self) -> list[str]:
        """Return the issuer-related settings that differ from their defaults."""
        fields = type(self).model_fields
        given = ((name, getattr(self, name)) for name in sorted(self.model_fields_set))
        return [
            name
            for name, value in given
            if name.startswith("oidc_") and value and value != fields[name].default
        ]

    @property
    def kept_questions(self) -> int:
        """How many answers are kept by question; the rest are kept by the text of the request."""
        return self.answer_cache_size // 2

    @property
    def kept_bodies(self) -> int:
        """How many answers are kept by the text of the request."""
        return self.answer_cache_size - self.kept_questions

    @property
    def url(self) -> str:
        """The database's URL; SQLite in the data folder if none is set."""
        if self.database_url:
            return self.database_url
        # Built, not joined: a URL has its own meaning for `?` and `%` in a folder's name.
        path = self.data_dir.absolute() / "trainfare.db"
        return URL.create("sqlite", database=str(path)).render_as_string()

    @property
    def shown_database(self) -> str:
        """The database as it may be shown: SQLite's path, or a server's address and name."""
        url = make_url(self.url)
        if url.get_backend_name() == "sqlite":
            return str(url.database)
        # Other options may hold a secret (`password`, `sslpassword`).
        secret = url.query.keys() - {"host", "port"}
        shown = url.difference_update_query(secret).render_as_string()
        return shown.partition("//")[2].rpartition("@")[2]
