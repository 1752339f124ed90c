"""What can keep a model from being exported, by name."""

from __future__ import annotations

from tasks.errors import UsageError


class ExportUnsupported(UsageError):
    """A format that cannot hold this kind of model, or one of its encoders."""


class ExportTooLarge(UsageError):
    """The weights, all numbers written, are more than one file of the format can hold."""
