"""Settings of an issuer: what is enough to start, and what would trust too much."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from app.settings import Settings

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    "changes",
    [
        {"oidc_issuer": "https://issuer.example"},
        {"oidc_audience": "a"},
        {"oidc_jwks_url": "https://issuer.example/keys"},
        {"oidc_scope_map": {"ml": ("read",)}},
        {"oidc_leeway_s": 60.0, "oidc_issuer": None},
        {"oidc_issuer": "http://issuer.example", "oidc_audience": "a"},
        {"oidc_issuer": "ftp://issuer.example", "oidc_audience": "a"},
        {"oidc_issuer": "http://10.0.0.1", "oidc_audience": "a"},
        {
            "oidc_issuer": "http://localhost",
            "oidc_audience": "a",
            "oidc_jwks_url": "http://issuer.example",
        },
        {"oidc_issuer": "https://i", "oidc_audience": "a", "oidc_algorithms": ("HS256",)},
        {"oidc_issuer": "https://i", "oidc_audience": "a", "oidc_algorithms": ()},
    ],
)
def test_settings_that_would_trust_too_much_stop_the_start(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(**changes)


def test_settings_without_an_issuer_may_say_what_holds_anyway() -> None:
    settings = Settings(oidc_issuer=None, oidc_audience="", oidc_leeway_s=30.0, oidc_scope_map={})

    assert settings.oidc_issuer is None


def test_issuer_without_the_extra_is_refused_with_a_remedy() -> None:
    program = (
        "import sys; sys.modules['jwt'] = None\n"
        "from app.services.access import open_tokens\n"
        "open_tokens(None)"
    )

    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert "the extra 'oidc'" in process.stderr
