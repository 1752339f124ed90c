"""What can be wrong with input data: one named error each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.last_resort import clean
from tasks.errors import InputError, LabelgroveError, ResourceError, UsageError, is_starved

SAID = 300  # letters of what others' code says


class SourceMissing(InputError):
    """A source names no file, or a file that cannot be read."""


class UnknownInput(InputError):
    """No reader knows this kind of file."""


class UnsafeFormat(InputError):
    """Reading this file would run code that it carries (pickle and its kin): refused, never tried."""


class DamagedInput(InputError):
    """A file is not what its name or its header says: cut short, no such format, not text."""


@contextmanager
def readable(
    where: str,
    what: str = "it cannot be read",
    kind: type[LabelgroveError] = DamagedInput,
    hint: str = "copy the file again, or write it again",
) -> Iterator[None]:
    """Turn whatever others' code raises into an error of ours; named errors and a lack of memory stay what they are.

    what  comes before the class and the first line of what was raised, which is the cause
    """
    try:
        yield
    except LabelgroveError:
        raise
    except Exception as error:
        if is_starved(error):
            raise
        said = clean((str(error).strip().splitlines() or ["no message"])[0][:SAID])
        raise kind(f"{what} ({type(error).__name__}: {said})", where, hint) from error


@contextmanager
def guarded(where: str) -> Iterator[None]:
    """As `readable`, around a whole reader: what the disk says stays as it is."""
    disk: OSError | None = None
    with readable(where):
        try:
            yield
        except OSError as error:
            if error.errno is None:  # of a library that unpacks, not of the disk
                raise
            disk = error
    if disk is not None:
        raise disk


class UnsafePath(InputError):
    """A name or a link that leads out of the folder or archive that it stands in."""


class DamagedImage(InputError):
    """Image files that cannot be decoded, or declare too many pixels."""


class DeclaredTooLarge(ResourceError):
    """A file declares more data than may be held in memory."""


class FeatureDtype(InputError):
    """Feature values that are no real numbers."""


class FeatureShape(InputError):
    """Features that are no matrix of at least one row and one column."""


class RaggedEmbedding(InputError):
    """A row whose vector is missing, has gaps or another length than those before it."""


class SampleFormat(InputError):
    """A sample of a tar archive without exactly one vector, or under a key that was there before."""


class ColumnMismatch(InputError):
    """Sources that do not have the same columns."""


def check_columns(found: int, wanted: int, where: str) -> None:
    """Raises ColumnMismatch unless raw rows are as wide as a model wants them; images have 0 columns."""
    if found == wanted:
        return
    if not wanted:
        hint = "give a folder of images, or a dataset made of one"
        raise ColumnMismatch(f"the model takes images, these are rows of {found:,} columns", where, hint)
    if not found:
        hint = "give rows of numbers; a model of images carries what turns them into such"
        raise ColumnMismatch(f"these are images, the model takes rows of {wanted:,} columns", where, hint)
    hint = "give rows with the columns of the training rows, in the same order"
    raise ColumnMismatch(f"{found} columns where {wanted} are expected", where, hint)


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


class EncodingUnfit(UsageError):
    """Rows that cannot be encoded on the way in: sparse ones, images."""


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
