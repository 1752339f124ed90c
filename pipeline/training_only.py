"""The stages of a config without a run folder: nothing is reported, and nothing is kept for a second call.

What a stage makes is what `run` makes with the same dataset, seed and settings: the same model, to the same digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config import RunConfig
from pipeline.connection.cluster import ask_workers
from pipeline.connection.profile import Profile
from pipeline.connection.shared_places import check_shared
from pipeline.connection.tls import security_of
from pipeline.dataset import Dataset
from pipeline.histograms import readers_of, refuse_negative
from pipeline.plan import MemoryPlan
from pipeline.pool import DaskPool, Pool
from pipeline.rows_facts import rows_facts
from pipeline.runner import View, open_pool
from pipeline.stage import Facts, Stage, Work
from pipeline.stages.publish import PublishStage
from pipeline.stages.train import MODEL, train_step
from pipeline.store import Done, RunFolder
from pipeline.systems import stages_of

CACHE_BYTES = (256 << 20) + 1  # of rows; a number of its own, so that a run of this process sets the process up anew
STEPS = "steps"


@dataclass(frozen=True)
class Trained:
    """What the stages of a config have made: of each step its folder and what it said."""

    folders: dict[str, Path]
    done: dict[str, Done]

    def model(self, learner: str) -> Path:
        """The folder of a model."""
        return self.folders[train_step(learner)] / MODEL

    def results(self, learner: str) -> dict[str, Any]:
        """What its step says of a model."""
        return self.done[train_step(learner)].results


@contextmanager
def pool_of(profile: Profile, folder: Path, dataset: Dataset | None = None) -> Iterator[Pool]:
    """The pool that a profile asks for, with its scratch in `folder`.

    Raises the errors of connecting, and PathNotShared where other machines' workers do not see folder and dataset.
    """
    security_of(profile)
    memory = MemoryPlan(0, CACHE_BYTES, 0, profile.threads)
    with open_pool(profile, memory, RunFolder(folder), View()) as pool:
        if isinstance(pool, DaskPool) and not profile.local_workers:
            client, seconds = pool.client, max(profile.timeouts.connect, profile.timeouts.scheduler_silent)
            seen = {} if dataset is None else {"the dataset": Path(dataset.path) / "zarr.json"}
            check_shared(lambda fn, *values: ask_workers(client, seconds, fn, *values), folder / "scratch", seen)
        yield pool


def stages_to_train(config: RunConfig, dataset: Dataset) -> list[Stage]:
    """Encodings and learners of a config, in an order in which inputs come first. Raises as `stages_of` does."""
    facts = Facts(dataset, rows_facts(config, dataset))
    return [stage for stage in stages_of(config, facts) if not isinstance(stage, PublishStage)]


def train_only(config: RunConfig, dataset: Dataset, pool: Pool, folder: Path) -> Trained:
    """Do the stages of a config, each in a folder of its own below `folder`.

    The dataset is one without test rows, whose own taxonomy learners follow: the config names no files.
    Raises what stages raise.
    """
    made = Trained({}, {})
    stages = stages_to_train(config, dataset)
    refuse_negative(dataset, [*readers_of(config)], pool)
    for stage in stages:
        place = folder / STEPS / stage.name
        place.mkdir(parents=True)
        inputs = {name: made.done[name] for name in stage.inputs}
        folders = {name: made.folders[name] for name in stage.inputs}
        said = stage.run(Work(place, pool, dataset, config.seed, inputs, folders, _unheard))
        made.folders[stage.name] = place
        made.done[stage.name] = Done(
            step=stage.name,
            fingerprint="",
            code=stage.version,
            seed=config.seed,
            digest=said.digest,
            inputs={name: done.digest for name, done in inputs.items()},
            settings=stage.settings(),
            files={},
            results=said.results,
            measured=said.measured,
        )
    return made


def _unheard(*_: Any, **__: Any) -> None:
    """Nobody watches."""
