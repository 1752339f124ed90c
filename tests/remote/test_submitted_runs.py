"""A submitted run whose dataset and run folder are at URLs: followed, cancelled and finished from anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.ingest import ingest
from pipeline.state import phase_of
from pipeline.store import RunFolder
from pipeline.submitted.submission import log_of, read_submission
from tasks.places import at
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.remote.conftest import SECRET
from tests.remote.objects import TREE, Bucket, rows_and_labels, write_config
from tests.systems.clusters import cluster
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import run_here, wait_until


@pytest.mark.slow
def test_a_submitted_run_in_a_store_is_followed_cancelled_and_continued(bucket: Bucket, tmp_path: Path) -> None:
    rows, labels = rows_and_labels()
    ingest(rows, bucket.url("d.zarr"), labels=labels, taxonomy=TREE, block_rows=80)
    ingest(rows, tmp_path / "d.zarr", labels=labels, taxonomy=TREE, block_rows=80)
    config = write_config(tmp_path / "c.toml", bucket.url("d.zarr"))
    url = bucket.url("runs/small")
    run = RunFolder(at(url))
    with cluster(tmp_path / "cluster") as found:
        words = ("submit", config, "--scheduler", found.file, "--runs", bucket.url("runs"))
        assert succeeds(*words).out == f"{url}\n"
        assert labelgrove(*words).code == 8
        assert "interrupted (cancelled by " in succeeds("cancel", url).out
        wait_until(lambda: not _open(run), "the end of the task")
        succeeds(*words)
        followed = succeeds("logs", url, "--follow")
        assert followed.err == f"{url}: finished\n"
        assert "driver: [1/8] encode_pq" in followed.out
        wait_until(lambda: not _open(run), "the end of the task")
    assert phase_of(run) == "finished"
    status = json.loads(succeeds("status", url, "--json").out)
    assert (status["submission"]["code"], status["to_do"]) == (0, [])
    assert [name for name in bucket.names("runs") if "seen-" in name or "stop.json" in name] == []
    log = log_of(run, status["submission"]["token"]).read_bytes()
    assert b"driver 1 of" in log
    assert SECRET.encode() not in log + json.dumps(status).encode()
    local = write_config(tmp_path / "local.toml", str(tmp_path / "d.zarr"))
    assert_same(digests_of(run_here(local)), at(url))


def _open(run: RunFolder) -> bool:
    record = read_submission(run)
    return record is not None and record.open
