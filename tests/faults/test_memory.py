"""Memory that runs out in fact, not in the plan: a named error with step, need and limit; more of it continues."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.ingest import images, ingest
from pipeline.ingest.errors import readable
from pipeline.last_resort import OutOfMemory, named
from tasks import zarr_nodes
from tests.faults.stage import RUN, small_config
from tests.image_files import encoded, texture
from tests.systems.digests import assert_same, differences, digests_of
from tests.systems.harness import command, environment, labelgrove, run_here

# A process that has worked already, so that all is loaded and its threads are there, and may have little more memory.
STARVED = """
import resource, sys
from pathlib import Path
from tests.systems.harness import run_here
run_here(Path({warm!r}))
now = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize:")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (now + (24 << 20),) * 2)
"""
WIDE = """\
name = "wide"
[data]
path = "wide.zarr"
[[train]]
name = "means"
kind = "nearest-class-mean"
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_task_that_its_worker_cannot_hold_is_named_and_a_larger_worker_continues(tmp_path: Path) -> None:
    """The nanny kills the worker again and again: it holds less than an idle one and the task take."""
    config = small_config(tmp_path)
    expected = digests_of(run_here(config, runs=tmp_path / "elsewhere"))
    typed = command("run", config, "--scheduler", "local:1", "--memory", "190 MiB", "--force")
    ended = subprocess.run(typed, capture_output=True, text=True, env=environment(), timeout=900, check=False)
    assert ended.returncode == 5, ended.stderr
    for words in ("TaskKilled", "encode_pq", "was planned with", "workers have 190.0 MiB", "--memory", "run again"):
        assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    larger = labelgrove("run", config, "--scheduler", "local:1", "--memory", "900 MiB")
    assert larger.code == 0, larger.err
    assert_same(expected, tmp_path / "runs" / RUN)


def test_a_process_without_memory_ends_with_a_name_and_continues(tmp_path: Path) -> None:
    """As under `ulimit -v`: a block of 32 MB does not fit into what is left."""
    config = tmp_path / "wide.toml"
    config.write_text(WIDE)
    rows, labels = np.random.default_rng(0).normal(size=(2048, 4096)).astype(np.float32), np.arange(2048) % 5
    ingest(rows, tmp_path / "wide.zarr", labels=labels, block_rows=2048)
    patch = STARVED.format(warm=str(small_config(tmp_path)))
    ended = labelgrove("run", config, "--scheduler", "serial", "--force", patch=patch)
    assert ended.code == 5, ended.err
    assert "OutOfMemory" in ended.err
    assert "Traceback" not in ended.err
    expected = digests_of(run_here(config, runs=tmp_path / "elsewhere"))
    assert differences(expected, digests_of(run_here(config))) == []


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), RuntimeError("can't start new thread"), OSError(errno.ENOMEM, "no memory")]
)
def test_memory_that_is_missing_is_no_damage(tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a store nor of a file of the user's: both would be said to be broken, or an image left out."""

    def starved(*_: Any, **__: Any) -> Any:
        raise error

    small_config(tmp_path)
    copied = shutil.copytree(tmp_path / "d.zarr", tmp_path / "e.zarr")  # one that was never opened
    (tmp_path / "x.png").write_bytes(encoded(texture(1)))
    assert isinstance(named(error), OutOfMemory)
    monkeypatch.setattr(zarr_nodes, "_opened", starved)
    with pytest.raises(type(error)):
        zarr_nodes.open_node(str(copied / "X"))
    monkeypatch.setattr(Image, "open", starved)
    with pytest.raises(type(error)):
        images.look(np.fromfile(tmp_path / "x.png", np.uint8))
    with pytest.raises(type(error)), readable("a file"):
        starved()
