"""The CI hook's client side: `trainfare ci report` and what it says where."""
