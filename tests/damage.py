"""What may befall a file: each is a function of its path."""

from __future__ import annotations

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
