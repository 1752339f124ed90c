"""What may befall a file: each is a function of its path, or drawn."""

from __future__ import annotations

import random
from pathlib import Path


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(200)))


DAMAGES = [delete, truncate, empty, flip, garbage]


HOWS = ("delete", "truncate", "empty", "flip", "sibling")


def damage(path: Path, how: str, rng: random.Random) -> bool:
    """Do it to one file, as a new file so that hard links of it stay; False when it would change nothing."""
    data = path.read_bytes()
    if how == "delete":
        path.unlink()
        return True
    if how == "sibling":
        others = [p for p in sorted(path.parent.iterdir()) if p.is_file() and p.read_bytes() != data]
        new = rng.choice(others).read_bytes() if others else data
    elif how == "flip":
        at = rng.randrange(len(data)) if data else 0
        new = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if data else data
    else:
        new = data[: rng.randrange(len(data))] if how == "truncate" and data else b""
    if new == data:
        return False
    path.unlink()
    path.write_bytes(new)
    return True
