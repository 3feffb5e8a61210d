"""The cost of a recorded forecast as the ledger grows."""
