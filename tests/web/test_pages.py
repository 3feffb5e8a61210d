"""The page is whole: every asset it names is there, cached well, and none stands elsewhere."""

import gzip
import re
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient

from app.web.assets import Assets, load_assets
from tests.support.engines import before_any_row

_PAGES = ["/", "/workloads/resnet50"]
_LINK = re.compile(r"""(?:src|href)=["']([^"'#]+)["']""")
_IMPORT = re.compile(
    r"""(?:^import\s*|^(?:import|export|\})[^"'=\n]*\bfrom\s*|\bimport\s*\(\s*)["']([^"']+)["']""",
    re.MULTILINE,
)
_ELSEWHERE = re.compile(r"""(?:https?:)?//[\w-]+(?:\.[\w-]+)+""")
_NAMESPACES = {"http://www.w3.org"}
_NEWER_THAN_SAFARI_15_4 = re.compile(
    r"""\(\?<[=!]|\.(?:toSorted|toReversed|toSpliced|with|checkVisibility|isSubsetOf)\(|\bpopover\b
    |requestIdleCallback|groupBy\(|withResolvers|fromAsync|AbortSignal\.(?:any|timeout)|\s&[\s.:>]
    |color-mix\(|@container|@scope|@starting-style|text-wrap|light-dark\(|:user-(?:in)?valid""",
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def assets() -> Assets:
    return load_assets()


@pytest.mark.parametrize("path", _PAGES)
def test_policy_allows_no_inline_code_and_no_other_origin(client: TestClient, path: str) -> None:
    answer = client.get(path)

    policy = dict(
        directive.strip().split(" ", 1)
        for directive in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", _PAGES)
def test_every_link_of_a_page_resolves(client: TestClient, path: str) -> None:
    page = client.get(path).text

    links = {link for link in _LINK.findall(page) if not link.startswith(("data:", "/readyz"))}
    assert len(links) > 10
    for link in links:
        assert link.startswith("/")
        assert client.get(link).status_code == 200, link
    assert not re.search(r"<(script|style)(?![^>]*\bsrc=)[^>]*>", page)
    assert not re.search(r"\son\w+=|\sstyle=", page)


def test_every_import_of_a_module_resolves(client: TestClient, assets: Assets) -> None:
    for path in assets.paths("js"):
        source = assets.by_path[path].body.decode()
        for name in _IMPORT.findall(source):
            assert name.startswith(("./", "../")), (path, name)
            url = urljoin(assets.url(path), name)
            assert client.get(url).headers["content-type"].startswith("text/javascript"), url


def test_own_files_name_no_other_host_and_build_no_markup(assets: Assets) -> None:
    for path, asset in assets.by_path.items():
        if path.startswith("vendor/") or asset.media_type == "image/png":
            continue
        text = asset.body.decode()
        assert set(_ELSEWHERE.findall(text)) <= _NAMESPACES, path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text), path
        assert text.count("\n") < 400, path


def test_own_files_use_nothing_that_safari_15_4_lacks(assets: Assets) -> None:
    for folder in ("js", "css"):
        for path in assets.paths(folder):
            text = assets.by_path[path].body.decode()
            assert _NEWER_THAN_SAFARI_15_4.findall(text.replace("&&", "and")) == [], path


def test_vendored_files_come_with_their_licences(assets: Assets) -> None:
    readme = assets.by_path["vendor/README.md"].body.decode()

    assert all(name in readme for name in re.findall(r"LICENSE[\w.-]*|NOTICE", readme))
    for folder, names in {
        "pico": ["LICENSE.md"],
        "echarts": ["LICENSE", "NOTICE", "LICENSE-zrender", "LICENSE-tslib", "LICENSE-d3"],
    }.items():
        for name in names:
            assert assets.by_path[f"vendor/{folder}/{name}"].body


def test_assets_are_kept_for_ever_under_their_digest(client: TestClient, assets: Assets) -> None:
    answer = client.get(assets.url("css/page.css"))

    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.content == assets.by_path["css/page.css"].body


def test_assets_of_another_release_are_not_kept(client: TestClient) -> None:
    assert client.get("/static/0123/css/page.css").headers["cache-control"] == "no-cache"


def test_known_asset_is_not_sent_again(client: TestClient, assets: Assets) -> None:
    url = assets.url("favicon.svg")

    repeated = client.get(url, headers={"If-None-Match": client.get(url).headers["etag"]})

    assert repeated.status_code == 304
    assert repeated.content == b""


@pytest.mark.parametrize("named", ["*", "W/{}", '"another", {}', '"another" , W/{}'])
@before_any_row
def test_asset_that_is_named_in_any_way_is_not_sent_again(
    client: TestClient, assets: Assets, named: str
) -> None:
    url, etag = assets.url("favicon.svg"), assets.by_path["favicon.svg"].etag

    known = client.get(url, headers={"If-None-Match": named.format(etag)})
    unknown = client.get(url, headers={"If-None-Match": '"another"'})

    assert (known.status_code, known.headers["etag"]) == (304, etag)
    assert unknown.status_code == 200


@pytest.mark.parametrize("refusal", ["gzip;q=0", "*, gzip;q=0", "br, gzip;q=0.0, *;q=0.5"])
@before_any_row
def test_assets_are_plain_for_whoever_refuses_gzip(
    client: TestClient, assets: Assets, refusal: str
) -> None:
    answer = client.get(assets.url("favicon.svg"), headers={"Accept-Encoding": refusal})

    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "Accept-Encoding"


def test_assets_are_compressed_for_whoever_understands_it(
    client: TestClient, assets: Assets
) -> None:
    path = "vendor/echarts/echarts.common.min.js"
    url = assets.url(path)

    with client.stream("GET", url, headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    plain = client.get(url, headers={"Accept-Encoding": "identity"})

    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain.content == assets.by_path[path].body
    assert len(packed) < len(plain.content) / 2
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    "path", ["/static/0123/nothing.js", "/static/0123/../pages.py", "/workloads/A%20name!"]
)
@before_any_row
def test_what_is_not_there_is_a_problem(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


def test_unknown_asset_has_no_url(assets: Assets) -> None:
    with pytest.raises(LookupError):
        assets.url("js/nothing.js")


def test_page_of_a_workload_folds_its_name(client: TestClient) -> None:
    assert 'data-workload="resnet50"' in client.get("/workloads/ResNet50").text


def test_favicon_is_found_where_browsers_look(client: TestClient) -> None:
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize("path", _PAGES)
def test_iphone_takes_no_number_for_a_telephone(client: TestClient, path: str) -> None:
    assert '<meta name="format-detection" content="telephone=no">' in client.get(path).text


def test_pages_answer_head_requests(client: TestClient) -> None:
    assert client.head("/").status_code == 200


def test_pages_stand_outside_the_api_document(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    assert not {"/", "/workloads/{workload}"} & set(paths)
