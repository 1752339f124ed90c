"""The pool: the only module that submits work. `DaskPool` on a cluster, `SerialPool` its twin in this process.

Verbs: `map`, `sum` (a fixed tree of additions in item order), `unfold` (items whose results give more items). Both
pools give the same bits: a task depends on its item and the shared values alone, and sums are added in item order.
A task carries paths, ids and small values; arrays among the shared values are written once and memory-mapped.
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.connection.cluster import ClusterWatch, Held, unheard
from pipeline.connection.timeouts import Timeouts
from pipeline.driven import LONGEST_POLL, POLL_SECONDS, Drive, driven
from tasks.calls import Receipt, add_outcomes, call, publish
from tasks.files import disk_room
from tasks.places import remove_folder
from tasks.sums import FAN_IN, groups, tree_sum
from tasks.worker import WorkerSettings

WINDOW = FAN_IN**4  # tasks given to the scheduler at a time: its memory stays the same for any number of items

USUAL = Timeouts()

Item = Any
Function = Callable[..., Any]
Expand = Callable[[Any, Any], Sequence[Any]]


class Progress(Protocol):
    """Hears when a call begins and of every task that ended: tasks and rows done so far of this call.

    Totals may grow while a tree unfolds.
    """

    def __call__(self, name: str, done: int, total: int, rows: int, rows_total: int) -> None: ...


def never(item: Item) -> bool:  # noqa: ARG001
    """No item is driven."""
    return False


def unasked(item: Item) -> Any:
    """What drives items where none is driven."""
    raise AssertionError(f"nobody drives {item}")


def silent(name: str, done: int, total: int, rows: int, rows_total: int) -> None:
    """No progress shown."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which of `count` alike calls one is: a round of a fit, say. Their progress is told as that of one call."""

    number: int = 0
    count: int = 1


WHOLE = Part()


@dataclass
class Tally:
    """Counts one call's tasks and rows, and tells `progress` of those to come and of each that ended.

    part  of how many calls it is one: those before it count as done, those behind it as to come
    """

    name: str
    progress: Progress
    part: Part = WHOLE
    done: int = 0
    total: int = 0
    rows: int = 0
    rows_total: int = 0

    def expect(self, items: Sequence[Item]) -> None:
        self.total += len(items)
        self.rows_total += sum(rows_of(item) for item in items)
        self._tell()

    def ended(self, item: Item) -> None:
        self.done += 1
        self.rows += rows_of(item)
        self._tell()

    def _tell(self) -> None:
        behind, count = self.part.number, self.part.count
        done, rows = behind * self.total + self.done, behind * self.rows_total + self.rows
        self.progress(self.name, done, count * self.total, rows, count * self.rows_total)


def rows_of(item: Item) -> int:
    """Rows that an item stands for, 0 when it does not say."""
    if isinstance(item, list | tuple):
        return sum(rows_of(one) for one in item)
    blocks = getattr(item, "blocks", None)
    if blocks is not None:
        return sum(block.n_rows for block in blocks)
    rows = getattr(item, "n_rows", getattr(item, "rows", 0))
    return rows if isinstance(rows, int) else 0


def label_of(item: Item) -> str:
    """What the dashboard shows of an item: its block or node number, or its name."""
    if isinstance(item, list | tuple) and item:
        return label_of(item[0])
    item = getattr(item, "block", item)
    for field in ("label", "index", "name"):
        value = getattr(item, field, None)
        if isinstance(value, int):
            return f"{value:05d}"
        if isinstance(value, str):
            return value
    return str(item).rpartition("/")[2][:40]


class Pool(Protocol):
    """Runs functions of `tasks` over items."""

    def map(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> list[Any]:
        """[fn(item, *shared) for item in items]: results must be small."""
        ...

    def sum(self, fn: Function, items: Sequence[Item], *shared: Any, name: str, part: Part = WHOLE) -> Any:
        """The sum of fn(item, *shared) over a tree of fixed shape (see tasks.sums); items must not be empty."""
        ...

    def unfold(
        self,
        fn: Function,
        items: Sequence[Item],
        expand: Expand,
        *shared: Any,
        name: str,
        drive: Drive | None = None,
        is_driven: Callable[[Item], bool] = never,
    ) -> None:
        """Run each item; `expand(item, result)`, called here, gives further items; ends when none is left.

        Items that `is_driven` are no tasks: `drive(item)` works them in threads of this process, where it may call the
        pool's other verbs, and tasks of other items go on meanwhile.
        """
        ...

    def here(self) -> SerialPool:
        """The serial twin: for calls so small that handing them out takes longer. Receipts and progress are shared."""
        ...


class PoolBase:
    """What both pools share: the scratch folder for published arrays, and where receipts go."""

    def __init__(self, scratch: Path, settings: WorkerSettings, progress: Progress = silent) -> None:
        self.scratch, self.settings, self.progress = scratch, settings, progress
        self.receipts: list[Receipt] = []
        self._numbers = itertools.count()

    def here(self) -> SerialPool:
        """See `Pool.here`."""
        twin = SerialPool(self.scratch, self.settings, self.progress)
        twin.receipts = self.receipts
        return twin

    @contextmanager
    def published(self, name: str, shared: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Shared values as tasks get them; their files are gone when the work is."""
        folder = self.scratch / f"{name}-{next(self._numbers):06d}-{uuid.uuid4().hex[:8]}"
        with disk_room(str(folder), 0):
            folder.mkdir(parents=True)
        try:
            yield tuple(publish(value, folder / f"shared-{i}") for i, value in enumerate(shared))
        finally:
            remove_folder(folder)


class SerialPool(PoolBase):
    """One task after another in this process."""

    def _call(self, fn: Function, item: Item, values: tuple[Any, ...], tally: Tally) -> Any:
        outcome = call(item, tally.name, label_of(item), fn, values, self.settings)
        self.receipts.extend(outcome.receipts)
        tally.ended(item)
        return outcome.result

    def map(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> list[Any]:
        return self._map(fn, items, shared, Tally(name, self.progress))

    def sum(self, fn: Function, items: Sequence[Item], *shared: Any, name: str, part: Part = WHOLE) -> Any:
        return tree_sum(self._map(fn, items, shared, Tally(name, self.progress, part)))

    def _map(self, fn: Function, items: Sequence[Item], shared: tuple[Any, ...], tally: Tally) -> list[Any]:
        tally.expect(items)
        with self.published(tally.name, shared) as values:
            return [self._call(fn, item, values, tally) for item in items]

    def unfold(
        self,
        fn: Function,
        items: Sequence[Item],
        expand: Expand,
        *shared: Any,
        name: str,
        drive: Drive | None = None,
        is_driven: Callable[[Item], bool] = never,
    ) -> None:
        waiting, tally = deque(items), Tally(name, self.progress)
        tally.expect(items)
        with self.published(name, shared) as values:
            while waiting:
                item = waiting.popleft()
                if drive is not None and is_driven(item):
                    result = drive(item)
                    tally.ended(item)
                else:
                    result = self._call(fn, item, values, tally)
                more = expand(item, result)
                tally.expect(more)
                waiting.extend(more)


class DaskPool(PoolBase):
    """Tasks on a Dask cluster, through a connected `distributed.Client`."""

    def __init__(
        self,
        client: Any,
        scratch: Path,
        settings: WorkerSettings,
        progress: Progress = silent,
        timeouts: Timeouts = USUAL,
        news: Callable[[str, str], object] = unheard,
    ) -> None:
        """news hears of workers while work is under way, as `ClusterWatch` tells it; in another thread."""
        super().__init__(scratch, settings, progress)
        self.client = client
        self.watch = ClusterWatch(client, timeouts, news)
        self._token = uuid.uuid4().hex[:8]

    def map(self, fn: Function, items: Sequence[Item], *shared: Any, name: str) -> list[Any]:
        results: list[Any] = [None] * len(items)
        with self.published(name, shared) as values, self.watch.guard(name) as watched:
            for place, outcome in self._ended(fn, items, values, Tally(name, self.progress), watched):
                results[place] = outcome.result
                self.receipts.extend(outcome.receipts)
        return results

    def sum(self, fn: Function, items: Sequence[Item], *shared: Any, name: str, part: Part = WHOLE) -> Any:
        tally = Tally(name, self.progress, part)
        with self.published(name, shared) as values, self.watch.guard(name) as watched:
            totals: list[Any] = []  # of each window: the tree's lower levels, since a window is a power of FAN_IN
            for _ in self._ended(
                fn, items, values, tally, watched, lambda parts: totals.append(self._add_tree(parts, name, watched))
            ):
                pass
            outcome = self.watch.result(self._add_tree(totals, name, watched))
            self.receipts.extend(outcome.receipts)
            return outcome.result

    def unfold(
        self,
        fn: Function,
        items: Sequence[Item],
        expand: Expand,
        *shared: Any,
        name: str,
        drive: Drive | None = None,
        is_driven: Callable[[Item], bool] = never,
    ) -> None:
        tally = Tally(name, self.progress)
        with (
            self.published(name, shared) as values,
            self.watch.guard(name) as watched,
            driven(drive or unasked, self.watch.cancel_all) as threads,
        ):
            stream = self.watch.stream([])
            item_of: dict[str, Item] = {}

            def begin(more: Sequence[Item]) -> None:
                tally.expect(more)
                apart = [is_driven(item) for item in more]
                threads.start([item for item, here in zip(more, apart, strict=True) if here])
                tasks = [item for item, here in zip(more, apart, strict=True) if not here]
                futures = watched(self._submit(fn, tasks, values, name))
                item_of.update({future.key: item for future, item in zip(futures, tasks, strict=True)})
                stream.add(futures)

            def finish(item: Item, result: Any) -> None:
                tally.ended(item)
                begin(list(expand(item, result)))

            begin(items)
            pause = POLL_SECONDS
            while item_of or len(threads):
                came = stream.ready(block=not len(threads))
                for future, outcome in came:
                    self.receipts.extend(outcome.receipts)
                    watched.drop(future)
                    finish(item_of.pop(future.key), outcome.result)
                pause = POLL_SECONDS if came else min(2 * pause, LONGEST_POLL)  # a look takes milliseconds
                for item, result in threads.ended(pause) if len(threads) else ():
                    finish(item, result)

    def _ended(
        self,
        fn: Function,
        items: Sequence[Item],
        values: tuple[Any, ...],
        tally: Tally,
        held: Held,
        begun: Callable[[list[Any]], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """(place among the items, outcome) as tasks end, told to the progress; the scheduler has two WINDOWs at most.

        begun  hears of the tasks of each window when they are submitted; results then stay on the workers
        """
        name, place_of = tally.name, dict[str, int]()
        tally.expect(items)
        stream, coming = self.watch.stream([], results=begun is None), deque(range(0, len(items), WINDOW))
        while coming or place_of:
            while coming and len(place_of) <= WINDOW:
                first = coming.popleft()
                futures = held(self._submit(fn, items[first : first + WINDOW], values, name))
                place_of |= {future.key: first + i for i, future in enumerate(futures)}
                stream.add(futures)
                if begun is not None:
                    begun(futures)
                del futures
            for future, outcome in stream.ready(block=True):
                place = place_of.pop(future.key)
                held.drop(future)
                tally.ended(items[place])
                yield place, outcome

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
        workers = self.watch.workers()
        if len(workers) < 2 or len(items) > 64 * len(workers):
            return {"": list(range(len(items)))}
        owners: dict[str, list[int]] = {}
        for i in range(len(items)):
            owners.setdefault(workers[i * len(workers) // len(items)], []).append(i)
        return owners

    def _add_tree(self, parts: list[Any], name: str, watched: Held) -> Any:
        level = parts
        while len(level) > 1:
            level = watched(
                self.client.map(
                    add_outcomes,
                    [[level[i] for i in group] for group in groups(len(level))],
                    key=[f"add_{name}-{self._token}{next(self._numbers):06d}" for _ in groups(len(level))],
                    priority=1,  # before further parts, so that few of them are held
                    pure=False,
                )
            )
        return level[0]
