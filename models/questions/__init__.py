"""Kinds of question: what they ask beyond the runs, and which of them are likely."""
