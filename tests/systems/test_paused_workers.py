"""Workers of a cluster whose memory is small, or that Dask pauses early: real processes, as a user would start them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.systems.clusters import cluster
from tests.systems.conftest import write_config
from tests.systems.harness import events_of, labelgrove

SOON = "[timeouts]\nno_workers = 4\n"


def test_workers_that_are_too_small_are_refused_and_forced_ones_do_not_hang(data_folder: Path, tmp_path: Path) -> None:
    """Forced, this one has less than an idle worker of ours holds: it is paused for good."""
    config = write_config(tmp_path, data_folder / "dense-0-128.zarr")
    profile = tmp_path / "profile.toml"
    profile.write_text(SOON)
    with cluster(tmp_path / "cluster", workers=1, memory="260MiB") as found:
        where = ("--profile", str(profile), "--scheduler", found.address)
        refused = labelgrove("run", config, *where)
        assert (refused.code, "MemoryTooSmall" in refused.err, "260.0 MiB (worker" in refused.err) == (5, True, True)
        forced = labelgrove("run", config, *where, "--force")
    assert forced.code == 5, forced.err
    assert re.search(r"TaskKilled: workers are paused for lack of memory for 4 s", forced.err)
    assert "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=0.94" in forced.err
    events = events_of(tmp_path / "runs" / "small")
    assert [event["code"] for event in events if event["event"] == "failed"] == [5, 5]
