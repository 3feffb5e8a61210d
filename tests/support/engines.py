"""A mark of tests for which it makes no difference which engine the database has."""

import pytest

before_any_row = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what is answered before any row is read or written.

The service then asks the database at most for the caller's project, as for any other request.
"""
