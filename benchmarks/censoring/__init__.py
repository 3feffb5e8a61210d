"""What unfinished runs are worth: fits that use them against fits that drop them."""
