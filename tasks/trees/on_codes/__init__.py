"""Classifiers of a node whose rows are PQ codes: whole passes by tables, few of them over all rows."""
