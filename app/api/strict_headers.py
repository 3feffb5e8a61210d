"""The headers by which browsers restrict every answer, also one given before the application."""

from typing import Final, TypeAlias

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

POLICY: Final = b"content-security-policy"
STRICT: Final[Headers] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
STRICTEST: Final[Headers] = (*STRICT, (POLICY, b"default-src 'none'; frame-ancestors 'none'"))
"""For answers without a policy of their own: a browser may load nothing."""
