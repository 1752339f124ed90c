"""One thread per process, set before NumPy loads; failures of property tests print what replays them.

A runner in the background of a shell ignores interruptions, and all it starts would too: they are turned on again.
"""

from __future__ import annotations

import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import settings  # noqa: E402

settings.register_profile("labelgrove", deadline=None, print_blob=True)  # deadlines would time the JIT and the machine
settings.load_profile("labelgrove")
