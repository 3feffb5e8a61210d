"""The value of unfinished runs: fits that use them against fits that drop them."""
