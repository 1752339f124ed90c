"""Features learnt from rows: principal components."""
