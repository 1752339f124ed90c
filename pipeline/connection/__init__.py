"""A connected cluster: profiles, time-outs, workers of our own, and whether all parts compute the same."""
