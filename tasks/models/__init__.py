"""Trained models: saved as documented files, loaded in a fresh process, ranking classes block by block."""
