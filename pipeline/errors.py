"""Named errors of running: the cluster, the run folder, the lock."""

from __future__ import annotations

from tasks.errors import LabelgroveError, ResourceError, UsageError


class ClusterLost(LabelgroveError):
    """No scheduler or no workers any more; everything finished is in the run folder."""

    exit_code = 6


class ClusterMismatch(LabelgroveError):
    """The cluster's packages differ from this process's."""

    exit_code = 6


class TaskKilled(ResourceError):
    """A task killed its worker again and again, most often by memory."""


class TaskFailed(LabelgroveError):
    """A task raised something that is not a named error: a fault of ours."""


class RowsUnfit(UsageError):
    """A section of the config reads rows of another kind than it takes: images, descriptors, numbers."""


class OtherRun(LabelgroveError):
    """The run folder was made from another dataset, or with another seed or block size."""

    exit_code = 7


class RunLocked(LabelgroveError):
    """Another live process runs in this folder."""

    exit_code = 8
