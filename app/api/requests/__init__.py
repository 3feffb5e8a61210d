"""How requests are read: bodies, queries, headers; one document or thousands in columns."""
