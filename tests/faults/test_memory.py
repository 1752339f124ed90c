"""Memory that runs out in fact, not in the plan: a named error with step, need and limit; more of it continues."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from tests.faults.stage import RUN, small_config
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import command, environment, labelgrove, run_here

# A process that may have as much address space as it has by now and a little more.
STARVED = """
import resource, sys
import pipeline.commands.running, pipeline.runner, pipeline.systems, tasks.trees.label_tree, sklearn.cluster, numba
from tasks.worker import configure_worker, WorkerSettings
configure_worker(WorkerSettings())
now = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize:")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (now + ({more} << 20),) * 2)
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


@pytest.mark.parametrize("more", [4, 32, 96])
def test_a_process_without_memory_ends_with_a_name_and_continues(tmp_path: Path, more: int) -> None:
    config = small_config(tmp_path)
    ended = labelgrove("run", config, "--scheduler", "serial", patch=STARVED.format(more=more))
    assert ended.code in (0, 5), ended.err
    if ended.code:
        assert "OutOfMemory" in ended.err
        assert "Traceback" not in ended.err
    expected = digests_of(run_here(config, runs=tmp_path / "elsewhere"))
    assert_same(expected, run_here(config))


def test_the_limit_is_one() -> None:
    """Of the smallest one above: a large array does not fit, so it is memory that is missing."""
    program = STARVED.format(more=4) + "import numpy as np\nnp.ones(1 << 24)\n"
    done = subprocess.run(command(patch=program), capture_output=True, text=True, env=environment(), check=False)
    assert "MemoryError" in done.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
