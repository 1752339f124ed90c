"""Relaxed hierarchies (Gao & Koller 2011): coloring of classes and classifiers learned together, and their rivals."""
