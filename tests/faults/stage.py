"""What is struck: the small config, how a run of it goes undisturbed, and the processes of a run."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipeline.connection.timeouts import Timeouts
from pipeline.ingest import ingest
from tests.faults.blow import CLIENT, NANNY, SCHEDULER, WORKER, Order
from tests.faults.plan import LOCAL, SERIAL
from tests.systems.clusters import Cluster, cluster
from tests.systems.conftest import planted, write_config
from tests.systems.digests import digests_of
from tests.systems.harness import WAIT, Started, environment, events_of, run_here, started, wait_until, worker_processes

# Shorter than a user's, yet long enough that a process which merely gets no processor is not taken for a dead one: a
# worker that comes anew imports all of ours before its first answer.
TIMEOUTS = Timeouts(
    connect=60.0,
    starting=120.0,
    answer=10.0,
    poll=0.5,
    scheduler_silent=10.0,
    no_workers=120.0,
    worker_silent=10.0,  # Dask takes no less than 5
    worker_lost=3.0,
    stopping=10.0,
)
BUSY = WAIT  # seconds that a machine with much else to do may take on top of any wait
MODELS = ("pq", "ovr", "tree-pq", "heshing")
RUN = "small"


def small_config(folder: Path) -> Path:
    """A dataset of 400 rows and a config of an encoding, SGD, a tree of nodes and a hashed learner; seconds of work."""
    rows, labels, taxonomy = planted(400, 16, "dense", 0, shape=(2, 2, 2))
    ingest(rows, folder / "d.zarr", labels=labels, taxonomy=taxonomy, block_rows=64)
    config = write_config(folder, folder / "d.zarr", ("subquantizers = 8", "subquantizers = 4"))
    head, *sections = config.read_text().split("[[")
    kept = [part for part in sections if any(f'name = "{name}"' in part for name in MODELS)]
    config.write_text("[[".join([head, *kept]))
    return config


def write_profile(folder: Path, timeouts: Timeouts) -> Path:
    """A profile with these time-outs: how anybody changes them."""
    path = folder / "profile.toml"
    lines = [f"{name} = {value}" for name, value in dataclasses.asdict(timeouts).items()]
    path.write_text("\n".join(['dashboard = "127.0.0.1:0"', "[timeouts]", *lines]) + "\n")
    return path


@dataclass(frozen=True)
class Course:
    """How a run goes that nobody disturbs: seconds until its first step and from there, changes by (role, kind)."""

    starting: float
    working: float
    changes: dict[tuple[str, str], int]

    @property
    def seconds(self) -> float:
        return self.starting + self.working


class Scene:
    """Starts clients, and a cluster where one is needed; everything ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = small_config(self.folder)
        self.profile = write_profile(self.folder, TIMEOUTS)
        self.order = self.folder / "order"
        self.expected = digests_of(run_here(self.config, runs=self.folder / "first"))
        self._stack = ExitStack()
        self._cluster: Cluster | None = None
        self._clusters = 0

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def environment(self) -> dict[str, str]:
        hook = Path(__file__).parent / "hook"
        path = os.pathsep.join([str(hook), environment()["PYTHONPATH"]])
        ttl = f"{TIMEOUTS.worker_silent}s"  # of a scheduler that is not ours, its own config says it
        return {
            "PYTHONPATH": path,
            "LABELGROVE_FAULT": str(self.order),
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": ttl,
        }

    def cluster(self) -> Cluster:
        """A scheduler and two nannies that run; new ones when these are gone."""
        if self._cluster is None:
            self._clusters += 1
            folder = self.folder / f"cluster-{self._clusters}"
            self._cluster = self._stack.enter_context(cluster(folder, **self.environment()))
            wait_until(lambda: len(self.workers()) == 2, "two workers")
        return self._cluster

    def drop_cluster(self) -> None:
        """It is not to be used any more."""
        self._stack.close()
        self._cluster = None

    def workers(self) -> list[psutil.Process]:
        """Of the cluster's nannies, in their order."""
        found = self._cluster
        return [] if found is None else [one for nanny in found.workers for one in worker_processes(nanny.pid)]

    def arguments(self, mode: str, runs: Path) -> list[str | Path]:
        scheduler: str | Path = {LOCAL: "local:2", SERIAL: SERIAL}.get(mode) or self.cluster().file
        return ["run", self.config, "--runs", runs, "--profile", self.profile, "--scheduler", scheduler]

    @contextmanager
    def client(self, mode: str, runs: Path, host: str = "") -> Iterator[Started]:
        """A run that has been started, on this host or one of another name; it does not outlive the block."""
        arguments, runs_log = self.arguments(mode, runs), runs.with_suffix(".log")
        with started(*arguments, log=runs_log, env=self.environment(), before=client_program(host)) as found:
            yield found

    def course(self, mode: str) -> Course:
        """Run once, undisturbed; changes of the disk are counted."""
        runs = self.folder / f"undisturbed-{mode}"
        runs.mkdir()
        seconds: list[tuple[float, float]] = []
        changes: Counter[tuple[str, str]] = Counter()
        for number, role in enumerate((CLIENT, WORKER)):
            place = runs / role
            Order(number, role, "", "", 0, "").write(self.order)
            began = time.monotonic()
            with self.client(mode, place) as client:
                client.until(lambda place=place: steps_begun(place), "the first step", 3 * WAIT)  # type: ignore[misc]
                first = time.monotonic()
                assert client.wait(3 * WAIT) == 0, client.text
            seconds.append((first - began, time.monotonic() - first))
            changes |= most_of_a_process(self.order.with_name("COUNTED"))
        shutil.rmtree(runs)
        starting, working = (min(values) for values in zip(*seconds, strict=True))
        return Course(starting, working, dict(changes))


def steps_begun(runs: Path) -> int:
    """Steps that have begun in all attempts so far."""
    return sum(event["event"] == "step" for event in events_of(runs / RUN))


def most_of_a_process(counted: Path) -> Counter[tuple[str, str]]:
    """(role, kind) -> changes of the process that makes most; the file goes."""
    found: Counter[tuple[str, str]] = Counter()
    if counted.exists():
        lines = Counter(tuple(line.split(" ", 2)) for line in counted.read_text().splitlines())
        for (role, _, kind), count in lines.items():
            found[role, kind] = max(found[role, kind], count)
        counted.unlink()
    return found


def client_program(host: str) -> list[str]:
    """Words before a client's: none, or what gives it a host name of its own."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"] if host else []


def can_be_elsewhere() -> bool:
    """Whether this user may give a process a host name of its own."""
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*client_program("elsewhere"), "true"], capture_output=True, check=False)
    return done.returncode == 0


def victims(scene: Scene, client: Started, mode: str, victim: str) -> list[psutil.Process]:
    """Processes of a role that are there now."""
    if victim == CLIENT:
        return [psutil.Process(client.process.pid)]
    if victim == WORKER:
        return client.workers() if mode == LOCAL else scene.workers()
    found = scene.cluster()
    processes = {SCHEDULER: [found.scheduler], NANNY: found.workers}[victim]
    return [psutil.Process(process.pid) for process in processes]
