"""Metrics: accuracy, hierarchical error, cost in vector operations."""
