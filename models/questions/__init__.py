"""Kinds of question: what they ask beyond the runs, and which questions are likely."""
