"""On PYTHONPATH of what `tests.faults` starts: every Python process of it, workers too, can be struck at a place."""

import os

if os.environ.get("LABELGROVE_FAULT"):
    from tests.faults.blow import arm

    arm(os.environ["LABELGROVE_FAULT"])
