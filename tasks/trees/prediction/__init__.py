"""Ranking by a tree: walks and searches down it, products of many rows with the weights of many nodes."""
