"""Readers of input formats, and the writer of the dataset store."""
