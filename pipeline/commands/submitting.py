"""submit: a run is handed to a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pipeline.choice import EVERYTHING, Choice
from pipeline.commands.running import load
from pipeline.config import LoadedConfig, TaxonomyLearner
from pipeline.connection.profile import Profile
from pipeline.last_resort import put_line, say, say_line
from pipeline.lock import holder_first, refuse_held
from pipeline.plan import run_folder_of
from pipeline.run_path import run_path
from pipeline.stop_request import who_asks
from pipeline.store import RunFolder
from pipeline.submitted.submission import Order, new_token
from tasks.errors import UsageError


def submit(
    config: Path,
    profile: Profile,
    *,
    runs: Path | None = None,
    overrides: Sequence[str] = (),
    force: bool = False,
    choice: Choice = EVERYTHING,
    where: str = "",
) -> RunFolder:
    """Hand a run to a cluster; returns once it has begun there, and prints how to follow and how to cancel it.

    where  name of the worker beside which the driver should run; default: any

    Raises what `run` raises before it begins, PathNotShared, ClusterLost; RunLocked when it is submitted already.
    """
    from pipeline.connection.cluster import connected
    from pipeline.submitted.awaiting import Awaiting
    from pipeline.submitted.handing_over import hand_over

    if profile.is_serial or profile.local_workers:
        hint = "--scheduler tls://HOST:PORT or a scheduler file; without a cluster `labelgrove run` is what you want"
        raise UsageError("there is no cluster to submit to", f"--scheduler {profile.scheduler}", hint)
    loaded = load(config, overrides)
    with holder_first(run_path(loaded.run.name, loaded.folder, runs)):
        folder = run_folder_of(loaded, runs, choice)
    refuse_held(folder.path)
    order = Order(
        token=new_token(),
        by=who_asks(),
        run=str(folder.path),
        config=str(loaded.path.absolute()),
        text=loaded.text,
        overrides=loaded.overrides,
        runs="" if runs is None else str(folder.path.parent),
        only=choice.only,
        skip=choice.skip,
        force=force,
        profile=asdict(profile),
    )
    with Awaiting(folder, order, profile.scheduler) as wait, connected(profile, say, wait.begin) as client:
        handed = hand_over(client, order, folder, files_of(loaded), profile.timeouts, where, wait.over)
    _say_handed(folder, handed.state, handed.host)
    return folder


def files_of(loaded: LoadedConfig) -> dict[str, Path]:
    """What a run reads: the files that tell whether a worker sees the same dataset and taxonomies."""
    found = {"the dataset": loaded.dataset_path / "zarr.json"}
    named = {learner.taxonomy for learner in loaded.run.train if isinstance(learner, TaxonomyLearner)}
    for name in filter(None, (*named, loaded.run.evaluate.taxonomy)):
        found[f"taxonomy {name}"] = (loaded.folder / name).absolute()
    return found


def _say_handed(folder: RunFolder, state: str, host: str) -> None:
    told = {
        "running": f"submitted: runs on the cluster, its driver on {host}",
        "finished": "submitted, and finished: there was nothing left to do",
        "waiting": "submitted: no worker has taken it yet, `labelgrove status` tells when one has",
    }
    say(told[state])
    put_line(str(folder.path))
    if state != "finished":
        place = shlex.quote(str(folder.path))
        say_line(f"follow it:  labelgrove logs {place} --follow")
        say_line(f"stop it:    labelgrove cancel {place}")
