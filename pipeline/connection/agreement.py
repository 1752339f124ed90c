"""Whether every part of a cluster would compute what this process would: versions, and the sources of our packages.

What is asked travels by value (`looker`), since a scheduler need not have our packages, and a worker may have others of
their names. Dask's own versions are asked first: code that travels by value must not meet another Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import ClusterMismatch

Facts = dict[str, str]  # name -> what it is there; a name that is missing is not installed there

PACKAGES = (
    *("dask", "distributed", "numpy", "scipy", "zarr", "numcodecs", "numba", "llvmlite", "mmh3", "pyarrow"),
    *("safetensors", "scikit-learn", "opencv-python-headless", "pillow", "labelgrove"),
)
SOURCES = ("tasks", "pipeline")
OF_A_SCHEDULER = ("python", "dask", "distributed")  # it may lack the others, since it computes nothing
BITS = ("BLAS kernels", "machine")  # where these differ, the last bits of a result may
TOPIC = "labelgrove-refused"
ABSENT, EDITED = "-", " edited since it started"
HINT = "deploy one image, or install the same lock file everywhere, restart what differs, then run again"


def looker(packages: Sequence[str], sources: Sequence[str]) -> Callable[..., Facts]:
    """A function without arguments that tells the `Facts` of the process that calls it."""

    edited = EDITED

    def look() -> dict[str, str]:
        import contextlib
        import importlib.metadata
        import platform
        import sys

        found = {"python": ".".join(platform.python_version_tuple()[:2]), "machine": platform.machine()}
        for name in packages:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        for name in sources:
            found |= digest_of(name, sys.modules)
        with contextlib.suppress(ImportError):  # what is not there is told above
            found["BLAS kernels"] = ", ".join(sorted(kernels()))
        return found

    def kernels() -> set[str]:
        """Of the BLAS libraries that numpy and scipy compute with."""
        from pathlib import Path

        import numpy  # noqa: F401  loads its BLAS
        import scipy.linalg  # noqa: F401  and this its own
        from threadpoolctl import threadpool_info

        blas = [entry for entry in threadpool_info() if entry["user_api"] == "blas"]
        brought = {"numpy.libs", "scipy.libs"}  # by wheels; OpenCV, once imported, brings one that we do not use
        ours = [entry for entry in blas if brought & {*Path(entry["filepath"]).parts}]
        return {str(entry.get("architecture")) for entry in ours or blas}

    def digest_of(name: str, modules: Mapping[str, Any]) -> dict[str, str]:
        """Of the sources that `import name` would take, or has taken, and where they are."""
        import hashlib
        import importlib.util
        import os
        from pathlib import Path

        import psutil

        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.submodule_search_locations:
            return {f"{name} at": str(spec.origin)} if spec else {}
        folder = Path(next(iter(spec.submodule_search_locations)))
        sha = hashlib.sha256()
        for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).parts):
            content = path.read_bytes()
            sha.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
        began = psutil.Process().create_time()
        files = [str(getattr(module, "__file__", "")) for module in list(modules.values())]
        ours = [file for file in files if file.startswith(f"{folder}{os.sep}") and os.path.exists(file)]
        stale = any(os.path.getmtime(file) > began + 2 for file in ours)
        return {name: sha.hexdigest()[:12] + (edited if stale else ""), f"{name} at": str(folder)}

    return look


def facts_here() -> Facts:
    """The facts of this process."""
    return fresh(looker(PACKAGES, SOURCES)())


def fresh(facts: Facts) -> Facts:
    """As if it were started now: of a process that computes nothing, or whose own facts are asked."""
    return {name: text.removesuffix(EDITED) for name, text in facts.items()}


@dataclass(frozen=True, slots=True)
class Part:
    """A scheduler or a worker as it was found; `required` are the names that it must not lack."""

    name: str
    facts: Facts
    required: tuple[str, ...]

    def differs(self, here: Facts, name: str) -> bool:
        """Whether it must not go on because of this name."""
        there = self.facts.get(name)
        return there != here.get(name) and (there is not None or name in self.required)


def compared(names: Sequence[str]) -> list[str]:
    """Of the names of facts those that must agree."""
    return [name for name in names if name not in BITS and not name.endswith(" at")]


def mismatch(here: Facts, parts: Sequence[Part]) -> ClusterMismatch | None:
    """The error that tells what differs and where, if anything does."""
    rows = [name for name in compared([*here]) if any(part.differs(here, name) for part in parts)]
    if not rows:
        return None
    first = next(part.name for part in parts if any(part.differs(here, name) for name in rows))
    return ClusterMismatch(
        "the cluster's packages differ from those here\n" + table(here, parts, rows) + "\n ", first, HINT
    )


def table(here: Facts, parts: Sequence[Part], rows: Sequence[str]) -> str:
    """A line for each of `rows`, a column for this process and for each part; parts that are alike share one."""
    alike: dict[tuple[str, ...], list[str]] = {}
    shown = [*rows, *(f"{name} at" for name in rows if f"{name} at" in here)]
    for part in parts:
        cells = tuple(part.facts.get(name, ABSENT) for name in shown)
        alike.setdefault(cells, []).append(part.name)
    heads = ["", "here", *(joined(names) for names in alike.values())]
    lines = [heads] + [[name, here.get(name, ABSENT), *(cells[i] for cells in alike)] for i, name in enumerate(shown)]
    wide = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(line, wide, strict=True)).rstrip() for line in lines
    )


def joined(names: Sequence[str], most: int = 3) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def bits_warning(here: Facts, parts: Sequence[Part]) -> str:
    """What differs that is no reason to stop: other processors compute other last bits; "" if nothing does.

    The scheduler's is nobody's business, since it computes nothing.
    """
    workers = [part for part in parts if part.required != OF_A_SCHEDULER]
    rows = [name for name in BITS if len({part.facts.get(name, ABSENT) for part in workers} | {here[name]}) > 1]
    if not rows:
        return ""
    said = "processors differ, so the last bits of results may: the same digests are not promised here"
    return f"{said}\n{table(here, workers, rows)}"


def dask_facts(told: Mapping[str, Any]) -> Facts:
    """Facts of what Dask tells of a process (`Client.get_versions`)."""
    packages = told["packages"]
    found = {"python": ".".join(str(packages["python"]).split(".")[:2])}
    return found | {name: str(packages[name]) for name in ("dask", "distributed") if packages.get(name)}


def ask_parts(client: Any, here: Facts, names: Mapping[str, str], seconds: float) -> list[Part]:
    """The scheduler and the workers as they are. Raises ClusterMismatch when their Python or Dask is another.

    names    address of a worker -> its name
    seconds  that each of three answers may take: TimeoutError

    A worker that has gone meanwhile is left out: when it comes back it is a newcomer.
    """
    told = client.sync(client._get_versions, callback_timeout=seconds)
    dask = [Part("scheduler", dask_facts(told["scheduler"]), OF_A_SCHEDULER)]
    dask += [Part(names.get(at, at), dask_facts(found), OF_A_SCHEDULER) for at, found in told["workers"].items()]
    error = mismatch({name: here[name] for name in OF_A_SCHEDULER}, dask)
    if error is not None:
        raise error
    look = looker(PACKAGES, SOURCES)
    scheduler = client.sync(client._run_on_scheduler, look, callback_timeout=seconds)
    answers = client.sync(client._run, look, on_error="return", callback_timeout=seconds)
    found = {names.get(at, at): answer for at, answer in answers.items() if not isinstance(answer, OSError)}
    facts = {name: answer if isinstance(answer, dict) else {} for name, answer in found.items()}
    every = (*compared([*here]),)
    return [
        Part("scheduler", fresh(scheduler), OF_A_SCHEDULER),
        *(Part(name, facts[name], every) for name in sorted(facts)),
    ]


def watch_newcomers(client: Any, here: Facts, say: Callable[[str], object]) -> None:
    """From now until this client leaves: a worker that comes later and differs is sent away, and `say` hears of it."""
    name = f"labelgrove-versions-{client.id}"
    wanted = {key: here[key] for key in compared([*here])}
    client.subscribe_topic(TOPIC, lambda event: _say_refused(event[1], client.id, here, say))
    client.register_plugin(_forgetter(name, client.id), name=name)
    client.register_plugin(_gatekeeper(looker(PACKAGES, SOURCES), wanted, client.id, TOPIC), name=name)


def _say_refused(told: Any, client: str, here: Facts, say: Callable[[str], object]) -> None:
    if isinstance(told, dict) and told.get("client") == client:
        part = Part(str(told["name"]), dict(told["facts"]), (*compared([*here]),))
        rows = [name for name in compared([*here]) if part.differs(here, name)]
        say(f"worker {part.name} is refused: its packages differ from those here\n{table(here, [part], rows)}")


def _gatekeeper(look: Callable[[], Facts], wanted: Facts, client: str, topic: str) -> Any:
    """A plugin that Dask sets up in a worker before it takes its first task; by value, as all that comes here."""
    from distributed import WorkerPlugin

    class Gatekeeper(WorkerPlugin):  # type: ignore[misc]
        async def setup(self, worker: Any) -> None:
            from distributed.core import Status

            facts = look()
            if all(facts.get(name) == text for name, text in wanted.items()):
                return
            worker.log_event(topic, {"client": client, "name": str(worker.name), "facts": facts})
            worker.status = Status.closing_gracefully  # from here on it begins no task

            async def leave() -> None:
                how = {"close_workers": False, "remove": True, "stimulus_id": topic}
                await worker.scheduler.retire_workers(workers=[worker.address], **how)
                await worker.close(nanny=True, reason="its packages differ from those of a labelgrove run")

            worker.loop.add_callback(leave)

    return Gatekeeper()


def _forgetter(name: str, client: str) -> Any:
    """A plugin of the scheduler: once the client is gone, however it went, newcomers are nobody's business."""
    from distributed import SchedulerPlugin

    class Forgetter(SchedulerPlugin):  # type: ignore[misc]
        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == leaving:
                scheduler.worker_plugins.pop(name, None)
                scheduler.remove_plugin(name=name)

    leaving = client
    return Forgetter()
