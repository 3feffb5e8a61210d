"""What a recorded forecast costs the longer the ledger is."""
