"""Artefacts: a fitted portfolio as data alone, with a hash of every part."""

from models.portfolio import FittedPortfolio

FORMAT_VERSION = 1


def dumps(portfolio: FittedPortfolio) -> bytes:
    """Return the artefact of a fitted portfolio; equal fits give equal bytes."""
    raise ValueError("not yet")


def loads(data: bytes) -> FittedPortfolio:
    """Return the portfolio of an artefact."""
    raise ValueError("not yet")
