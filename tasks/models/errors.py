"""What can be wrong with a model folder or a predictions file, by name."""

from __future__ import annotations

from tasks.errors import ArtefactError, InputError, UsageError


class UnsafeFormat(ArtefactError):
    """A pickle or another format that can run code: refused, never opened."""


class UnsafePath(ArtefactError):
    """An entry name that leaves its folder: `..`, an absolute path or a link."""


class ModelMissing(ArtefactError):
    """A model folder, or one of its files, is not there."""


class ModelDamaged(ArtefactError):
    """A file's bytes differ from what was written: wrong checksum, truncated, impossible sizes."""


class ModelFormat(ArtefactError):
    """A model folder of a newer version, an unknown kind, or with a header that does not fit its tensors."""


class HashMismatch(ArtefactError):
    """The model was trained with another hash than this program computes."""


class PredictionsDamaged(ArtefactError):
    """A predictions file is missing, damaged, or not one of ours."""


class ColumnMismatch(InputError):
    """The rows have another width than the model was trained on."""


class NoProbabilities(UsageError):
    """Probabilities were asked of a model whose scores are no log-odds."""
