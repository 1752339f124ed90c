"""Finished runs side by side: what they are, how they differ, whose models are better on the same rows."""
