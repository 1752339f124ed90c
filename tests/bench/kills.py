"""Trees killed at every depth: SIGKILL for a worker, and for the run with all its workers, again and again.

    python -m tests.bench.kills FOLDER [--workers 2] [--memory "3 GB"] [--trees kmeans label]

FOLDER is one that `many_classes` has filled: its run of as many workers, which nobody disturbed, says what digests must
come out. Every tree is trained in a run of its own. Exit 1 when a digest differs, or when a node that was finished
before a kill is trained again after it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench.many_classes import CONFIG, TREES, digests, headers

POLL_SECONDS = 0.2
WORKER, RUN = "a worker", "the run"


@dataclass(frozen=True)
class Growing:
    """A run under way, and the folders of its tree's nodes."""

    process: subprocess.Popen[bytes]
    folder: Path

    def done(self) -> dict[str, int]:
        """Finished nodes: when each was, in nanoseconds."""
        found = {}
        for mark in self.folder.glob("steps/train_*/progress/nodes/tree-0/*/DONE.json"):
            try:
                found[mark.parent.name] = mark.stat().st_mtime_ns
            except FileNotFoundError:  # the step has just ended
                return {}
        return found

    def begun(self) -> bool:
        """Whether the root is under way."""
        return any(self.folder.glob("steps/train_*/progress/nodes/tree-0/*"))

    def kill(self, whom: str) -> bool:
        """SIGKILL; of a run every process, so that none can tidy up. False while there is no worker yet."""
        if whom == RUN:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return True
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if any("spawn_main" in word for word in child.cmdline()):
                child.kill()
                return True
        return False


@dataclass(frozen=True)
class Kill:
    """When, whom, and in how many words."""

    said: str
    whom: str
    when: Callable[[Growing], bool]


def kills(nodes: Sequence[str]) -> list[Kill]:
    """In the root twice, after it, and twice among the nodes of every other depth; nodes: names such as 0.3.1."""
    planned = [
        Kill("the root is under way", WORKER, Growing.begun),
        Kill("the root is under way", RUN, after(15.0, Growing.begun)),
        Kill("the root is done", RUN, share(0, 1)),
    ]
    counts = Counter(map(depth_of, nodes))
    for depth in sorted(counts)[1:]:
        for part, whom in ((0.2, WORKER), (0.6, RUN)):
            said = f"{part:.0%} of the nodes at depth {depth} are done"
            planned.append(Kill(said, whom, share(depth, part * counts[depth])))
    return planned


def depth_of(node: str) -> int:
    return node.count(".")


def share(depth: int, count: float) -> Callable[[Growing], bool]:
    """So many nodes of a depth are done."""
    return lambda run: sum(depth_of(node) == depth for node in run.done()) >= count


def after(seconds: float, when: Callable[[Growing], bool]) -> Callable[[Growing], bool]:
    """So long after it is so for the first time."""
    since: list[float] = []

    def later(run: Growing) -> bool:
        if not since and when(run):
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= seconds

    return later


def disturbed(folder: Path, name: str, where: list[str], planned: list[Kill]) -> Iterator[str]:
    """Run to the end through all kills; yields what happened. Exits when finished work was done again."""
    waiting, kept = list(planned), dict[str, int]()
    while True:
        command = [sys.executable, "-m", "pipeline.cli", "run", str(folder / f"{name}.toml"), *where]
        quiet = subprocess.DEVNULL
        run = Growing(
            subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True), folder / "runs" / name
        )
        while run.process.poll() is None:
            time.sleep(POLL_SECONDS)
            done = run.done()
            if again := [node for node, mark in kept.items() if done.get(node, mark) != mark]:
                run.kill(RUN)
                sys.exit(f"trained again: {', '.join(again)}")
            kept |= done
            if waiting and waiting[0].when(run) and run.kill(waiting[0].whom):
                kill = waiting.pop(0)
                yield f"{kill.said} ({len(kept):,} nodes): {kill.whom} killed"
        if run.process.returncode >= 0:  # not by a signal of ours
            yield f"ended with {run.process.returncode}; kills not come to: {len(waiting)}"
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="3 GB")
    parser.add_argument("--trees", nargs="+", default=list(TREES), choices=list(TREES))
    given = parser.parse_args()
    undisturbed, same = headers(given.folder, f"many-{given.workers}"), True
    where = ["--scheduler", f"local:{given.workers}", "--memory", given.memory]
    for tree in given.trees:
        name = f"killed-{tree}"
        text = CONFIG.format(name=name, trees=f'[[train]]\nname = "{tree}"\n{TREES[tree]}')
        (given.folder / f"{name}.toml").write_text(text)
        nodes = [one["node"] for one in undisturbed[tree]["tree"]["nodes"]]
        for said in disturbed(given.folder, name, where, kills(nodes)):
            print(f"{tree}: {said}", flush=True)
        found = digests(given.folder, name, [tree])[tree]
        same &= found == undisturbed[tree]["digest"]
        print(f"{tree}: digest {found}, undisturbed {undisturbed[tree]['digest']}", flush=True)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
