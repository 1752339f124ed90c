"""deploy/dask.yaml, from the settings of a local cluster: `python -m tests.deploy.dask_yaml > deploy/dask.yaml`."""

from __future__ import annotations

import sys
from typing import Any

import yaml

from pipeline.connection.dask_settings import DASK_CONFIG, dask_timeouts
from pipeline.connection.timeouts import Timeouts

HEAD = """\
# Dask's settings where scheduler and workers are not started by `labelgrove run`; the image has this in /etc/dask.
# Those of `--scheduler local` (connection/dask_settings.py): python -m tests.deploy.dask_yaml > deploy/dask.yaml
"""
LOCAL_ONLY = {
    "distributed.worker.preload",  # a worker of somebody else's cluster may be stopped by Ctrl-C in its terminal
    "distributed.deploy.lost-worker-timeout",  # who starts workers anew is compose, Kubernetes or Slurm
    "distributed.admin.large-graph-warning-threshold",  # of the client
}


def settings() -> dict[str, Any]:
    """Dotted names and values."""
    every = {**DASK_CONFIG, **dask_timeouts(Timeouts())}
    return {name: value for name, value in every.items() if name not in LOCAL_ONLY}


def text() -> str:
    """The file."""
    nested: dict[str, Any] = {}
    for name, value in settings().items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return HEAD + yaml.safe_dump(nested, sort_keys=True)


if __name__ == "__main__":
    sys.stdout.write(text())
