"""The stages of a run: each reads finished steps, asks the pool, writes one step."""
