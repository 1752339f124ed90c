"""Whatever dies, stops, fills up or is damaged: nothing is lost. `python -m tests.faults` is the kill test."""
