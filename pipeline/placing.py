"""Where a file that a command leaves is made: in a folder beside its place, from which it is moved when it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.ingest.place import scratch_beside
from pipeline.outputs import move_in
from tasks.files import disk_room


@contextmanager
def made_beside(output: Path, nbytes: int = 0, force: bool = False, alone: bool = True) -> Iterator[Path]:
    """A local path to write at; the file is at `output` after the block, whole or, when anything fails, not at all.

    What a process that made the same file left when it was killed, a folder .NAME.partial-PID, is removed first; what
    stood at `output` stays until the new file is whole.

    nbytes  of the file, for DiskFull; force: whether what stands there then is replaced
    alone   False: others may make it at the same time, who write the same

    Raises OutputExists while another process makes the same file and, should one be faster, at the end.
    """
    with disk_room(str(output), nbytes), scratch_beside(output, alone=alone) as scratch:
        local = scratch / output.name
        yield local
        move_in(local, output, force)
