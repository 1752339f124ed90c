"""Hierarchical feature hashing (Zhao & Xing): positions and signs computed on the fly, never stored."""
