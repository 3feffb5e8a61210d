"""`python -m app.cli` runs `trainfare`."""

from app.cli import main

main()
