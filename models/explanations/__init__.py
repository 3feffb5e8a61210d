"""Why a forecast is what it is: terms, phases, the most influential runs."""
