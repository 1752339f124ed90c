"""What can be wrong with input data: one named error each."""

from __future__ import annotations

from tasks.errors import InputError, ResourceError, UsageError


class SourceMissing(InputError):
    """A source names no file, or a file that cannot be read."""


class UnknownInput(InputError):
    """No reader knows this kind of file."""


class UnsafeFormat(InputError):
    """Reading this file would run code that it carries (pickle and its kin): refused, never tried."""


class DamagedInput(InputError):
    """A file is not what its name or its header says: cut short, no such format, not text."""


class DeclaredTooLarge(ResourceError):
    """A file declares more data than may be held in memory."""


class FeatureDtype(InputError):
    """Feature values that are no real numbers."""


class FeatureShape(InputError):
    """Features that are no matrix of at least one row and one column."""


class ColumnMismatch(InputError):
    """Sources that do not have the same columns."""


class NonFiniteFeature(InputError):
    """NaN or infinity among the features."""


class FeatureRange(InputError):
    """Values too large for the type they are stored in, or for its squares."""


class CsrStructure(InputError):
    """Sparse arrays that describe no matrix: pointers that go back, columns outside the matrix."""


class LengthMismatch(InputError):
    """Rows and labels (or rows and split) of different number."""


class LabelDtype(InputError):
    """Labels that are neither integers nor names."""


class LabelOutOfRange(InputError):
    """A label that names no class."""


class LabelsMissing(InputError):
    """No labels were given, and the source has none of its own."""


class DuplicateClassId(InputError):
    """Two classes under one id."""


class DuplicateClassName(InputError):
    """Labels given as names where one name is that of two classes."""


class ClassTableFormat(InputError):
    """A class table that cannot be read."""


class OneClassData(InputError):
    """Training rows of fewer than two classes: there is nothing to learn."""


class SvmlightLine(InputError):
    """A line that is not svmlight text."""


class SvmlightIndexBase(InputError):
    """Whether column numbers start at 0 or 1 is neither stated nor proven, or is stated wrongly."""


class SplitFormat(InputError):
    """A split that cannot be read, or names rows that are not there."""


class TaxonomyFormat(InputError):
    """A taxonomy file that cannot be read."""


class TaxonomyCycle(InputError):
    """A node that is its own ancestor."""


class TaxonomyRoots(InputError):
    """Not exactly one node without a parent."""


class TaxonomyMultiParent(InputError):
    """A node under two parents."""


class TaxonomyUnknownClass(InputError):
    """A childless node that is no class, or a name that is no node."""


class TaxonomyMissingClass(InputError):
    """A class that is no node of the taxonomy."""


class TaxonomyInnerLabel(InputError):
    """A class that is an inner node: classes are leaves."""


class DatasetExists(UsageError):
    """Something already stands where the dataset was to be written."""
