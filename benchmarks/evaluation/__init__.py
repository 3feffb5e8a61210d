"""Speed of the library: fitting, loading, evaluating."""
