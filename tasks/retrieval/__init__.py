"""Retrieval by Hamming distance between codes (Chen & Shrivastava 2018, section 5.3)."""
