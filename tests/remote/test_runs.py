"""Datasets and runs at URLs: the same digests as on a disk, interrupted or not; damage found and repaired."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.ingest import ingest
from pipeline.store import DONE
from tasks.places import at
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.remote.conftest import KEY, SECRET
from tests.remote.objects import REST, SMALL, TREE, Bucket, forget_clients, rows_and_labels, write_config
from tests.systems import harness
from tests.systems.clusters import cluster
from tests.systems.digests import assert_same, digests_of


@pytest.fixture(scope="module")
def shared(s3_server: str) -> Bucket:
    """A bucket with a dataset d.zarr."""
    del s3_server
    bucket = Bucket.made("lg-of-runs")
    rows, labels = rows_and_labels()
    ingest(rows, bucket.url("d.zarr"), labels=labels, taxonomy=TREE, block_rows=80)
    return bucket


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Callable[[str], dict[str, str]]:
    """The digests of a config's run on a disk."""
    folder = tmp_path_factory.mktemp("here")
    rows, labels = rows_and_labels()
    ingest(rows, folder / "d.zarr", labels=labels, taxonomy=TREE, block_rows=80)
    known: dict[str, dict[str, str]] = {}

    def run(text: str) -> dict[str, str]:
        if text not in known:
            config = write_config(folder / f"c{len(known)}.toml", str(folder / "d.zarr"), text)
            known[text] = digests_of(harness.run_here(config, runs=folder / f"runs{len(known)}"))
        return known[text]

    return run


@pytest.fixture(scope="module")
def finished(shared: Bucket, tmp_path_factory) -> Path:
    """The config of a run that is finished in runs/small of the bucket; by the command line."""
    config = write_config(tmp_path_factory.mktemp("there") / "c.toml", shared.url("d.zarr"))
    said = succeeds("run", config, "--scheduler", "serial", "--runs", shared.url("runs"))
    assert f"report: {shared.url('runs/small/report.html')}" in said.err
    return config


def test_a_run_in_a_store_is_that_of_a_disk(shared: Bucket, finished: Path, here) -> None:
    del finished
    assert_same(here(SMALL), at(shared.url("runs/small")))
    assert [name for name in shared.names("runs") if "partial" in name or "lock" in name or "scratch" in name] == []
    events = [json.loads(line)["event"] for line in shared.read("runs/small/events.jsonl").splitlines()]
    assert (events[0], events[-1]) == ("run", "finished")
    assert events.count("done") == events.count("step") == 8


def test_no_object_holds_what_lets_us_in(shared: Bucket, finished: Path) -> None:
    del finished
    for name in shared.names():
        data = shared.read(name)
        assert KEY.encode() not in data, name
        assert SECRET.encode() not in data, name


def test_the_other_commands_take_urls(shared: Bucket, finished: Path, tmp_path: Path) -> None:
    run, model = shared.url("runs/small"), shared.url("runs/small/models/tree")
    for words in (("status", run), ("logs", run), ("report", run), ("inspect", model), ("verify", model)):
        assert succeeds(*words).out, words
    assert "every digest holds" in succeeds("verify", run).out
    assert "every digest holds" in succeeds("verify", shared.url("d.zarr")).out
    assert "240" in succeeds("inspect", shared.url("d.zarr")).out
    plan = succeeds("plan", finished, "--runs", shared.url("runs")).out
    assert "everything is finished" in plan
    assert "room is not known" in succeeds("plan", finished, "--runs", shared.url("other")).out
    assert "nothing stands in the way" in succeeds("check", finished, "--runs", shared.url("other")).out
    assert "0 step(s)" in succeeds("clean", finished, "--runs", shared.url("runs"), "--yes").err
    rows, labels = rows_and_labels(seed=3)
    np.save(tmp_path / "new.npy", rows)
    np.save(tmp_path / "new-labels.npy", labels)
    for output in (tmp_path / "p.parquet", shared.url("p.parquet")):
        succeeds("predict", model, tmp_path / "new.npy", "-o", output, "--labels", tmp_path / "new-labels.npy")
    assert shared.read("p.parquet") == (tmp_path / "p.parquet").read_bytes()
    assert "metrics" in json.loads(shared.read("p.metrics.json"))
    said = succeeds("predict", model, shared.url("d.zarr"), "-o", tmp_path / "d.parquet", "--split", "test")
    assert "test" in said.out


def test_runs_at_urls_are_compared_and_the_page_may_be_one_too(shared: Bucket, finished: Path, tmp_path: Path) -> None:
    del finished
    text = SMALL.split("[[encode]]")[0] + '[[train]]\nname = "means"\nkind = "nearest-class-mean"\n'
    config = write_config(tmp_path / "c.toml", shared.url("d.zarr"), text.replace('"small"', '"means"'))
    succeeds("run", config, "--scheduler", "serial", "--runs", shared.url("runs"))
    runs = (shared.url("runs/small"), shared.url("runs/means"))
    for page in (str(tmp_path / "compare.html"), shared.url("compare.html")):
        said = succeeds("compare", *runs, "-o", page)
        assert "small/tree" in said.out
        assert "means/means" in said.out
        assert "best models" in said.out  # row by row: predictions are read from the store
        assert labelgrove("compare", *runs, "-o", page).code == 2  # it is there
        succeeds("compare", *runs, "-o", page, "--force")
    named = "compare-figures/row-by-row.csv"
    assert shared.read(named) == (tmp_path / named).read_bytes()
    assert shared.read("compare.html") == (tmp_path / "compare.html").read_bytes()
    said = labelgrove("compare", runs[0], shared.url("runs/nowhere"), "-o", tmp_path / "x.html")
    assert (said.code, "RunMissing" in said.err) == (2, True)
    assert not (tmp_path / "x.html").exists()
    inside = labelgrove("compare", *runs, "-o", f"{runs[0]}/report.html")
    assert (inside.code, "PlaceTaken" in inside.err) == (2, True)


def test_an_ingested_dataset_is_the_same_and_not_replaced_unasked(shared: Bucket, tmp_path: Path) -> None:
    rows, labels = rows_and_labels()
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "y.npy", labels)
    words = ("ingest", tmp_path / "x.npy", shared.url("e.zarr"), "--labels", tmp_path / "y.npy", "--block-rows", "90")
    first = succeeds(*words).err
    here = succeeds(*words[:2], tmp_path / "e.zarr", *words[3:]).err
    assert first.split("digest ")[1] == here.split("digest ")[1]
    said = labelgrove(*words)
    assert (said.code, "DatasetExists" in said.err) == (2, True)
    np.save(tmp_path / "x.npy", rows[:120])
    np.save(tmp_path / "y.npy", labels[:120])
    assert "120 rows" in succeeds(*words, "--force").err
    assert "every digest holds" in succeeds("verify", shared.url("e.zarr")).out
    assert "e.zarr/X/c/2/0" not in shared.names("e.zarr")
    shared.write("foreign/notes.txt", b"somebody's")
    said = labelgrove(*words[:2], shared.url("foreign"), *words[3:], "--force")
    assert (said.code, shared.names("foreign")) == (2, ["foreign/notes.txt"])


def test_a_dataset_without_its_mark_is_none(shared: Bucket) -> None:
    for name in shared.names("d.zarr"):
        if name != "d.zarr/zarr.json":
            shared.write(f"half{name.removeprefix('d')}", shared.read(name))
    said = labelgrove("verify", shared.url("half.zarr"))
    assert said.code == 4, said


def test_a_flipped_bit_is_found_and_its_step_made_again(shared: Bucket, finished: Path) -> None:
    run = shared.url("runs/small")
    name = next(name for name in shared.names("runs/small/steps") if name.endswith("predictions.parquet"))
    whole = shared.read(name)
    shared.flip(name)
    assert "damaged: predictions.parquet" in labelgrove("plan", finished, "--runs", shared.url("runs")).out
    said = labelgrove("verify", run)
    assert (said.code, "predictions.parquet" in said.out) == (4, True), said
    succeeds("run", finished, "--scheduler", "serial", "--runs", shared.url("runs"))
    assert "every digest holds" in succeeds("verify", run).out
    assert len(shared.read(name)) == len(whole)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # on a busy machine: seconds for every request
def test_what_is_damaged_is_found_and_made_again(shared: Bucket, finished: Path, here) -> None:
    run = shared.url("runs/small")
    names = shared.names("runs/small/steps")
    codes = next(name for name in names if name.endswith("rows.zarr/codes/c/0/0"))
    node = next(name for name in names if name.endswith("weights.safetensors"))
    model = "runs/small/models/ovr/weights.safetensors"
    for name in (codes, node, model):
        shared.flip(name)
        said = labelgrove("verify", run)
        assert (said.code, name.rsplit("/", 1)[1] in said.out) == (4, True), (name, said)
        succeeds("run", finished, "--scheduler", "serial", "--runs", shared.url("runs"))
        assert_same(here(SMALL), at(run))
    for name in (codes, next(name for name in names if name.endswith(DONE))):
        shared.remove(name)
        assert labelgrove("verify", run).code == 4
        succeeds("run", finished, "--scheduler", "serial", "--runs", shared.url("runs"))
        assert_same(here(SMALL), at(run))


def started(shared: Bucket, config: Path, runs: str, log: Path, scheduler: str) -> harness.Started:
    words = ("run", config, "--scheduler", scheduler, "--runs", shared.url(runs))
    return harness.Started(*words, log=log)


def killed_at(shared: Bucket, config: Path, runs: str, log: Path, scheduler: str, ready: Callable[[], bool]) -> None:
    """Begin a run as a process of its own, and kill it with all its workers once the store looks so."""
    process, deadline = started(shared, config, runs, log, scheduler), time.monotonic() + harness.WAIT
    while not ready():
        assert process.process.poll() is None, process.text
        assert time.monotonic() < deadline, process.text
        time.sleep(0.05)
    for worker in process.workers():
        worker.send_signal(signal.SIGKILL)
    process.process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(1200)  # on a busy machine: seconds for every request
@pytest.mark.parametrize("scheduler", ["serial", "local:2"])
def test_a_killed_run_goes_on(shared: Bucket, here, tmp_path: Path, scheduler: str) -> None:
    """Killed while the first step writes, and again when a model is trained; what is finished is not done again."""
    config, runs = write_config(tmp_path / "c.toml", shared.url("d.zarr")), f"killed-{scheduler.replace(':', '')}"

    def names(part: str) -> list[str]:
        return [name for name in shared.names(f"{runs}/small/steps") if part in name]

    killed_at(shared, config, runs, tmp_path / "log", scheduler, lambda: bool(names("progress/blocks")))
    assert names(DONE) == []
    killed_at(shared, config, runs, tmp_path / "log", scheduler, lambda: len(names(DONE)) >= 2)
    before = {name: shared.read(name) for name in names(f"/{DONE}")}
    process = started(shared, config, runs, tmp_path / "log", scheduler)
    assert process.wait(900) == 0, process.text
    assert "taken over" in process.text
    assert before
    assert {name: shared.read(name) for name in before} == before
    assert_same(here(SMALL), at(shared.url(f"{runs}/small")))


@pytest.mark.slow
@pytest.mark.timeout(1200)  # on a busy machine: seconds for every request
@pytest.mark.parametrize("scheduler", ["serial", "local:2"])
def test_every_kind_of_learner_in_a_store(shared: Bucket, here, tmp_path: Path, scheduler: str) -> None:
    config = write_config(tmp_path / "c.toml", shared.url("d.zarr"), SMALL + REST)
    runs = f"all-{scheduler.replace(':', '')}"
    forget_clients()
    process = started(shared, config, runs, tmp_path / "log", scheduler)
    assert process.wait(900) == 0, process.text
    assert_same(here(SMALL + REST), at(shared.url(f"{runs}/small")))
    left = ("/solved/", "/scratch/", "/progress/")
    assert [name for name in shared.names(runs) if any(part in name for part in left)] == []
    output = tmp_path / "near.parquet"
    assert "precision" in succeeds("retrieve", shared.url(f"{runs}/small"), "codes", "-o", output).out
    assert "certificate" in succeeds("inspect", shared.url(f"{runs}/small/models/tn")).out


@pytest.mark.slow
@pytest.mark.timeout(1200)  # on a busy machine: seconds for every request
def test_a_cluster_of_others_reads_and_writes_the_store_alone(shared: Bucket, here, tmp_path: Path) -> None:
    """Scheduler and workers that the driver has not started: they share the store with it, and no folder."""
    config = write_config(tmp_path / "c.toml", shared.url("d.zarr"), SMALL)
    with cluster(tmp_path / "cluster") as found:
        process = started(shared, config, "others", tmp_path / "log", found.address)
        assert process.wait(900) == 0, process.text
        words = ("predict", shared.url("others/small/models/tree"), shared.url("d.zarr"), "--scheduler", found.address)
        done = harness.labelgrove(*words, "-o", shared.url("others/p.parquet"))
        assert done.code == 0, done
    assert [name for name in shared.names("others") if "scratch" in name or "partial" in name] == []
    assert shared.read("others/p.parquet")[:4] == b"PAR1"
    assert_same(here(SMALL), at(shared.url("others/small")))
