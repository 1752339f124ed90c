"""Where a command runs: known before all that it computes is loaded."""

from __future__ import annotations

from pipeline.connection.nursery import nursery as nursery
from pipeline.connection.profile import Profile, load_profile


def profile_of(
    file: str | None,
    scheduler: str | None,
    threads: int | None = None,
    memory: str | None = None,
    insecure: bool = False,
) -> Profile:
    """The profile of a file with the command line's options over it."""
    given = {"scheduler": scheduler, "threads": threads, "memory_per_worker": memory, "insecure": insecure or None}
    return load_profile(file, **given)
