"""Readers of input formats, and the writer of the dataset store."""

from pipeline.ingest.build import ingest, open_source

__all__ = ["ingest", "open_source"]
