"""One independent random stream per (run, stage, node, block, round): never shared, never drawn in completion order."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, *path: int | str) -> np.random.Generator:
    """The generator of one place in a run.

    seed    the run's seed, >= 0
    path    the place, for example ("sgd", "tree", node, round, partition); words enter by their CRC-32
    """
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in path]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(seed), *words])))
