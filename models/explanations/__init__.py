"""Why a forecast is what it is: terms, phases, the runs that taught it."""
