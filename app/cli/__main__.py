"""`python -m app.cli` is `trainfare`."""

from app.cli import main

main()
