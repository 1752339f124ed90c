"""Looking at, and damaging, what is in a bucket; and small data for datasets and runs there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import s3fs

N_CLASSES, EACH, WIDTH = 10, 24, 12

SMALL = """
name = "small"
seed = 7

[data]
path = "{data}"

[[encode]]
name = "pq"
kind = "pq"
subquantizers = 4
bits = 4

[[train]]
name = "ovr"
kind = "ovr"
rounds = 2

[[train]]
name = "tree"
kind = "label-tree"
rows = "pq"
test_rows = "x"
depth = 2
"""

REST = """
[[train]]
name = "tn"
kind = "trace-norm"
lambda1_steps = 2

[[train]]
name = "hash"
kind = "heshing"
bits = 8
rounds = 2

[[train]]
name = "relaxed"
kind = "relaxed-hierarchy"

[[train]]
name = "means"
kind = "nearest-class-mean"

[[encode]]
name = "codes"
kind = "dwta"
hashes = 64

[[retrieve]]
name = "near"
rows = "codes"
"""


def forget_clients() -> None:
    """Clients read the environment when they are made."""
    s3fs.S3FileSystem.clear_instance_cache()


@dataclass(frozen=True)
class Bucket:
    """A bucket by its name."""

    name: str

    @classmethod
    def made(cls, name: str) -> Bucket:
        bucket = cls(name)
        bucket.system.mkdir(name)
        return bucket

    @property
    def system(self) -> Any:
        return s3fs.S3FileSystem(use_listings_cache=False)

    def url(self, name: str) -> str:
        return f"s3://{self.name}/{name}"

    def names(self, below: str = "") -> list[str]:
        """Keys in order, without the bucket."""
        found = self.system.find(f"{self.name}/{below}".rstrip("/"))
        return sorted(key[len(self.name) + 1 :] for key in found)

    def read(self, name: str) -> bytes:
        data: bytes = self.system.cat_file(f"{self.name}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        self.system.pipe_file(f"{self.name}/{name}", data)

    def remove(self, name: str) -> None:
        self.system.rm_file(f"{self.name}/{name}")

    def flip(self, name: str) -> None:
        """Change one bit in the middle of an object."""
        data = bytearray(self.read(name))
        data[len(data) // 2] ^= 1
        self.write(name, bytes(data))


def rows_and_labels(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(240, 12) float32 about ten centres, and their classes."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(N_CLASSES, dtype=np.int32), EACH)
    centres = rng.normal(size=(N_CLASSES, WIDTH))
    return (centres[labels] + 0.7 * rng.normal(size=(labels.size, WIDTH))).astype(np.float32), labels


TREE = {"root": {f"g{g}": {str(c): None for c in range(g, N_CLASSES, 3)} for g in range(3)}}


def write_config(path: Path, data: str, text: str = SMALL) -> Path:
    path.write_text(text.replace("{data}", data))
    return path
