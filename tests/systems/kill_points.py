"""Kill a run at every place where it changes the disk, and see that running again comes to the same end.

`python -m tests.systems.kill_points CONFIG FOLDER SEED COUNT`: one run of the serial pool is watched through Python's
audit events (opening for writing, renaming, linking, removing, making folders). Then runs are killed -9 right before
the n-th of these, each in a process of its own, half of them with the file written last cut in half, and run again.
COUNT points are drawn so that every kind of place (the event and the name of its file) comes first; 0 means all.
Prints one JSON line per point: {"point", "place", "torn", "wrong"}.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.systems.digests import differences, digests_of
from tests.systems.harness import general, run_here

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PLACES = {"os.rename": 1, "os.link": 1, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0}  # argument that names the place


class Watch:
    """Numbers the changes below a folder; kills this process before the one that is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.on = str(folder), False
        self.seen: list[str] = []
        self.kill_at, self.torn, self.last = -1, False, ""
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook: called before the change."""
        if not self.on:
            return
        if event == "open":
            path, _, flags = arguments
            place = path if isinstance(flags, int) and flags & WRITING else None
        else:
            place = arguments[PLACES[event]] if event in PLACES else None
        if not isinstance(place, str | os.PathLike) or not os.fspath(place).startswith(self.folder):
            return
        if len(self.seen) == self.kill_at:
            self.kill()
        self.seen.append(f"{event} {general(os.fspath(place)[len(self.folder) :].partition(os.sep)[2])}")
        if event == "open":
            self.last = os.fspath(place)

    def kill(self) -> None:
        """As a power cut of this process: nothing is flushed, nothing is tidied."""
        self.on = False
        if self.torn and os.path.isfile(self.last):
            os.truncate(self.last, os.path.getsize(self.last) // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Any) -> tuple[int, str]:
    """(exit status, what it wrote) of work() in a forked process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(write, json.dumps(work()).encode())
            status = 0
        except BaseException:
            os.write(write, traceback.format_exc()[-2000:].encode())
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def chosen_points(seen: list[str], seed: int, count: int) -> list[int]:
    """Places to kill at: one of every kind first, in random order, then others."""
    rng, order = random.Random(seed), list(range(len(seen)))
    if not count:
        return order
    rng.shuffle(order)
    kinds: set[str] = set()
    firsts = [i for i in order if seen[i] not in kinds and not kinds.add(seen[i])]  # type: ignore[func-returns-value]
    return [*firsts, *(i for i in order if i not in set(firsts))][:count]


def try_point(watch: Watch, config: Path, runs: Path, point: int, torn: bool, expected: dict[str, str]) -> str:
    """What is wrong after a kill and another run, or ""."""

    def killed() -> None:
        watch.kill_at, watch.torn, watch.seen, watch.on = point, torn, [], True
        run_here(config, runs=runs)

    def again() -> list[str]:
        found = digests_of(run_here(config, runs=runs))
        return differences(expected, found)

    code, text = in_child(killed)
    if code != -signal.SIGKILL:
        return f"was not killed: {code} {text}"
    code, text = in_child(again)
    return "" if (code, text) == (0, "[]") else f"run again: {code} {text}"


def main(config: Path, folder: Path, seed: int, count: int) -> None:
    folder = folder.absolute()
    expected = digests_of(run_here(config, runs=folder / "first"))  # compiles
    watch = Watch(folder)
    watch.on = True
    run_here(config, runs=folder / "watched")
    watch.on = False
    for point in chosen_points(watch.seen, seed, count):
        torn = bool(random.Random(seed + point).getrandbits(1))
        wrong = try_point(watch, config, folder / f"killed-{point}", point, torn, expected)
        print(json.dumps({"point": point, "place": watch.seen[point], "torn": torn, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
