"""The JSON documents of the contract, one module per resource."""
