"""The pool: the only module that submits work. `DaskPool` on a cluster, `SerialPool` its twin in this process.

Verbs: `map`, `sum` (a fixed tree of additions in item order), `unfold` (items whose results give more items). Both pools
give the same bits: what a task computes depends on its item and the shared values, and sums are added in item order.
A task carries paths, ids and small values; arrays among the shared values are written once and memory-mapped.
"""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tasks.calls import Outcome, Receipt, add_outcomes, call, publish
from tasks.sums import groups, tree_sum
from tasks.worker import WorkerSettings

Item = Any
Function = Callable[..., Any]
Expand = Callable[[Any, Any], Sequence[Any]]


class Progress(Protocol):
    """Hears of every task that ended; `total` may grow while a tree unfolds."""

    def __call__(self, name: str, done: int, total: int, receipts: Sequence[Receipt]) -> None: ...


def silent(name: str, done: int, total: int, receipts: Sequence[Receipt]) -> None:
    """No progress shown."""


def label_of(item: Item) -> str:
    """What the dashboard shows of an item: its block or node number, or its name."""
    for field in ("label", "index", "name"):
        value = getattr(item, field, None)
        if value is not None:
            return f"{value:05d}" if isinstance(value, int) else str(value)
    return str(item)[:40]


class Pool(Protocol):
    """Runs functions of `tasks` over items."""

    def map(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> list[Any]:
        """[fn(item, *shared) for item in items]: results must be small."""
        ...

    def sum(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> Any:
        """The sum of fn(item, *shared) over a tree of fixed shape (see tasks.sums); items must not be empty."""
        ...

    def unfold(self, fn: Function, items: Sequence[Item], expand: Expand, *shared: Any, name: str) -> None:
        """Run each item; `expand(item, result)`, called here, gives further items; ends when none is left."""
        ...


class PoolBase:
    """What both pools share: the scratch folder for published arrays, and where receipts go."""

    def __init__(self, scratch: Path, settings: WorkerSettings, progress: Progress = silent) -> None:
        self.scratch, self.settings, self.progress = scratch, settings, progress
        self.receipts: list[Receipt] = []
        self._numbers = itertools.count()

    @contextmanager
    def published(self, name: str, shared: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Shared values as tasks get them; their files are gone when the work is."""
        folder = self.scratch / f"{name}-{next(self._numbers):06d}-{uuid.uuid4().hex[:8]}"
        folder.mkdir(parents=True)
        try:
            yield tuple(publish(value, folder / f"shared-{i}") for i, value in enumerate(shared))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, name: str, done: int, total: int, receipts: Sequence[Receipt]) -> None:
        self.receipts.extend(receipts)
        self.progress(name, done, total, receipts)


class SerialPool(PoolBase):
    """One task after another in this process."""

    def _outcomes(self, fn: Function, items: Sequence[Item], shared: tuple[Any, ...], name: str) -> Iterator[Outcome]:
        with self.published(name, shared) as values:
            for i, item in enumerate(items):
                outcome = call(item, name, label_of(item), fn, values, self.settings)
                self.keep(name, i + 1, len(items), outcome.receipts)
                yield outcome

    def map(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> list[Any]:
        return [outcome.result for outcome in self._outcomes(fn, items, shared, name)]

    def sum(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> Any:
        return tree_sum(self.map(fn, items, *shared, name=name))

    def unfold(self, fn: Function, items: Sequence[Item], expand: Expand, *shared: Any, name: str) -> None:
        waiting, done = list(items), 0
        with self.published(name, shared) as values:
            while waiting:
                item = waiting.pop(0)
                outcome = call(item, name, label_of(item), fn, values, self.settings)
                done += 1
                waiting.extend(expand(item, outcome.result))
                self.keep(name, done, done + len(waiting), outcome.receipts)


class DaskPool(PoolBase):
    """Tasks on a Dask cluster. `client` is a connected `distributed.Client`; `watch` raises when the cluster is lost."""

    def __init__(self, client: Any, scratch: Path, settings: WorkerSettings, progress: Progress = silent) -> None:
        super().__init__(scratch, settings, progress)
        from pipeline.cluster import ClusterWatch, worker_names

        self.client = client
        self.watch = ClusterWatch(client)
        self._worker_names = worker_names
        self._token = uuid.uuid4().hex[:8]

    def map(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> list[Any]:
        with self.published(name, shared) as values, self.watch.guard(name) as watched:
            futures = watched(self._submit(fn, items, values, name))
            outcomes: list[Outcome | None] = [None] * len(futures)
            place = {future.key: i for i, future in enumerate(futures)}
            for done, (future, outcome) in enumerate(self.watch.finished(futures), 1):
                outcomes[place[future.key]] = outcome
                self.keep(name, done, len(items), outcome.receipts)
            return [outcome.result for outcome in outcomes if outcome is not None]

    def sum(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> Any:
        with self.published(name, shared) as values, self.watch.guard(name) as watched:
            parts = watched(self._submit(fn, items, values, name))
            total = self._add_tree(parts, name, watched)
            for done, _ in enumerate(self.watch.finished(parts, results=False), 1):
                self.progress(name, done, len(items), ())
            del parts
            outcome = self.watch.result(total)
            self.keep(name, len(items), len(items), outcome.receipts)
            return outcome.result

    def unfold(self, fn: Function, items: Sequence[Item], expand: Expand, *shared: Any, name: str) -> None:
        with self.published(name, shared) as values, self.watch.guard(name) as watched:
            futures = watched(self._submit(fn, items, values, name))
            item_of = {future.key: item for future, item in zip(futures, items, strict=True)}
            stream, done, total = self.watch.stream(futures), 0, len(futures)
            for future, outcome in stream:
                done += 1
                more = list(expand(item_of.pop(future.key), outcome.result))
                self.keep(name, done, total + len(more), outcome.receipts)
                if more:
                    added = watched(self._submit(fn, more, values, name))
                    total += len(added)
                    item_of |= {future.key: item for future, item in zip(added, more, strict=True)}
                    stream.add(added)

    def _submit(self, fn: Function, items: Sequence[Item], values: tuple[Any, ...], name: str) -> list[Any]:
        """One future per item, in item order; items keep to the same worker from one call to the next if they can."""
        futures: list[Any] = [None] * len(items)
        for worker, places in self._owners(items).items():
            chosen = [items[i] for i in places]
            labels = [label_of(item) for item in chosen]
            for i, future in zip(
                places,
                self.client.map(
                    call,
                    chosen,
                    [name] * len(chosen),
                    labels,
                    fn=fn,
                    shared=values,
                    settings=self.settings,
                    key=[f"{name}-{label}-{self._token}{next(self._numbers):06d}" for label in labels],
                    workers=[worker] if worker else None,
                    allow_other_workers=bool(worker),
                    pure=False,
                ),
                strict=True,
            ):
                futures[i] = future
        return futures

    def _owners(self, items: Sequence[Item]) -> dict[str, list[int]]:
        """Which worker each item asks for: rows read once stay in that worker's cache over the rounds of a fit.

        Balanced by count over the workers alive now, by position; a preference only, any worker may take the task.
        Long lists ask for nobody: there the scheduler's own queueing keeps memory low.
        """
        workers = self._worker_names(self.client)
        if len(workers) < 2 or len(items) > 64 * len(workers):
            return {"": list(range(len(items)))}
        owners: dict[str, list[int]] = {}
        for i in range(len(items)):
            owners.setdefault(workers[i * len(workers) // len(items)], []).append(i)
        return owners

    def _add_tree(self, parts: list[Any], name: str, watched: Callable[[list[Any]], list[Any]]) -> Any:
        level = parts
        while len(level) > 1:
            level = watched(
                self.client.map(
                    add_outcomes,
                    [[level[i] for i in group] for group in groups(len(level))],
                    key=[f"add_{name}-{self._token}{next(self._numbers):06d}" for _ in groups(len(level))],
                    pure=False,
                )
            )
        return level[0]
