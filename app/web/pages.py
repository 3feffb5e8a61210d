"""Routes of the web page: HTML shells, which scripts fill from the API, and static files."""

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.domain.errors import NotFoundError
from app.domain.identifiers import parse_slug
from app.domain.negotiation import preferred
from app.web.assets import Asset, load_assets

if TYPE_CHECKING:
    from jinja2 import Environment

router = APIRouter(include_in_schema=False)
_METHODS: Final = ["GET", "HEAD"]
_FAVICON: Final = "favicon.svg"
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_HEADERS: Final = {
    # No 'unsafe-inline' anywhere: scripts set styles through the DOM, never as markup. The data:
    # images are the arrows and ticks in Pico's style sheet.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@cache
def _environment() -> "Environment":
    # Imported late: a process that serves only programs shows no page.
    from jinja2 import Environment, PackageLoader  # noqa: PLC0415

    loader = PackageLoader("app.web", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    assets = load_assets()
    environment.globals.update(
        asset=assets.url, modules=assets.paths("js"), version=version("trainfare")
    )
    return environment


def _page(template: str, **values: Any) -> HTMLResponse:
    return HTMLResponse(_environment().get_template(template).render(**values), headers=_HEADERS)


@router.api_route("/", methods=_METHODS)
async def show_workloads() -> HTMLResponse:
    return _page("workloads.html", script="workloads_page.js")


@router.api_route("/workloads/{workload}", methods=_METHODS)
async def show_workload(workload: str) -> HTMLResponse:
    # Whether it exists depends on the key, which only the page has: its script asks the API.
    slug = parse_slug(workload)
    if slug is None:
        raise NotFoundError("workload", workload)
    return _page("workload.html", script="workload_page.js", workload=slug)


@router.api_route("/static/{digest}/{path:path}", methods=_METHODS)
async def send_asset(request: Request, digest: str, path: str) -> Response:
    assets = load_assets()
    asset = assets.by_path.get(path)
    if asset is None:
        raise NotFoundError("static file", path)
    # During a rollout, pages of the previous release may still request files.
    is_current = digest == assets.version
    return _send(request, asset, cache_control=_IMMUTABLE if is_current else "no-cache")


@router.api_route("/favicon.ico", methods=_METHODS)
async def send_favicon(request: Request) -> Response:
    return _send(request, load_assets().by_path[_FAVICON], cache_control="public, max-age=86400")


def _send(request: Request, asset: Asset, *, cache_control: str) -> Response:
    headers = {"Cache-Control": cache_control, "ETag": asset.etag, "Vary": "Accept-Encoding"}
    if _matches(asset, request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=headers)
    if preferred(request.headers.get("accept-encoding"), ("identity", "gzip")) == "gzip":
        headers["Content-Encoding"] = "gzip"
        return Response(asset.compressed, media_type=asset.media_type, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)


def _matches(asset: Asset, none_match: str) -> bool:
    """Whether an `If-None-Match` header matches a file, weakly or strongly; `*` matches any."""
    tags = {tag.strip().removeprefix("W/") for tag in none_match.split(",")}
    return bool(tags & {asset.etag, "*"})
