"""Trees of balanced clusters of class centroids, whose nodes learn from all rows that reach them."""
