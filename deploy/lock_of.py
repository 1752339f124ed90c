"""Some packages of a lock file, and what they need, as a lock file: lock_of.py LOCK NAME... > OUT

A lock file of uv says below each package which others have asked for it ("# via"); nothing is resolved anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def entries(lock: str) -> dict[str, str]:
    """Name -> its lines: version, hashes, who has asked for it."""
    found = re.finditer(r"^([a-z0-9][a-z0-9._-]*)==.*\n(?:[ \t].*\n)*", lock, re.MULTILINE)
    return {match[1]: match[0] for match in found}


def asked_by(entry: str) -> set[str]:
    """Names below "# via" of one package."""
    comments = re.findall(r"^ +#(.*)$", entry, re.MULTILINE)
    return {word for line in comments for word in line.split() if word != "via"}


def lock_of(lock: str, names: list[str]) -> str:
    """The entries of these packages and of all that they need. Raises KeyError for a name that is not there."""
    known = entries(lock)
    taken = {name: known[name] for name in names}
    while more := {name: text for name, text in known.items() if name not in taken and asked_by(text) & taken.keys()}:
        taken |= more
    return "".join(text for _, text in sorted(taken.items()))


if __name__ == "__main__":
    sys.stdout.write(lock_of(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2:]))
