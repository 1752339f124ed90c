"""deploy/trial.py with a real Docker Engine: the one that is there, or one that is started for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.deploy.compose import ROOT
from tests.shared import shared_path


def engine() -> dict[str, str]:
    """Variables of the environment with which Docker answers. Skips where no engine is, nor can be started."""
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        return {}
    if os.geteuid() != 0:
        pytest.skip("no Docker Engine answers here, and only root may start one")
    script = shared_path("tools/docker-engine")
    done = subprocess.run([script, "up"], capture_output=True, text=True, timeout=1200, check=False)
    found = re.search(r"^export DOCKER_HOST=(\S+)$", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        pytest.skip(f"no Docker Engine answers here, and none can be started: {done.stderr[-300:]}")
    return {"DOCKER_HOST": found[1], "LABELGROVE_BUILD_NETWORK": "host"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_compose_cluster_from_nothing() -> None:
    """It says of everything that it looks at whether it is as it should be."""
    env = {**os.environ, "LABELGROVE_TAG": "trial", **engine()}
    done = subprocess.run(
        [sys.executable, str(ROOT / "deploy/trial.py")],
        env=env,
        capture_output=True,
        text=True,
        timeout=3500,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    assert "FAILED" not in done.stdout
    assert re.search(r"digests .* \d+ steps equal in 3 runs", done.stdout)
