"""Runs `python -m trainfare_client`."""

import sys

from trainfare_client.console import main

sys.exit(main())
