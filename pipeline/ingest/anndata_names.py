"""Names of features in AnnData files: the index of var."""

from __future__ import annotations

from pipeline.dataset import Note
from pipeline.ingest.anndata import X, is_anndata
from pipeline.ingest.containers import ARRAY, GROUP, LABEL_BYTES, Container, place, text_attr, texts
from pipeline.ingest.errors import readable
from tasks.errors import InputError
from tasks.models.feature_names import normal_names

UNREAD = "FeatureNamesNotRead"


def var_names(container: Container, rows: str, n_features: int) -> tuple[tuple[str, ...] | None, list[Note]]:
    """Names of the columns of X and of layers, and of raw/X; None where there are none. And what there is to say.

    rows  place of the matrix; those of obsm have other columns, without names
    """
    if not is_anndata(container) or not (rows == X or rows.startswith("layers/") or rows == f"raw/{X}"):
        return None, []
    var = "raw/var" if rows.startswith("raw/") else "var"
    if container.kind(var) != GROUP:  # none, or in an old layout
        return None, []
    index = f"{var}/{text_attr(container.attrs(var), '_index') or '_index'}"
    if container.kind(index) != ARRAY:
        return None, []
    node = container.array(index)
    if node.shape != (n_features,) or node.dtype.kind not in "USOTiu" or node.chunk_bytes > LABEL_BYTES:
        return None, [_unread(container, index, f"no {n_features:,} names are there")]
    try:
        with readable(node.where):
            values = node.read(0, n_features)
        found = tuple(map(str, values.tolist())) if values.dtype.kind in "iu" else tuple(texts(values, node.where))
        "".join(found).encode()  # no half of a surrogate pair
    except (InputError, UnicodeEncodeError):
        return None, [_unread(container, index, "they are no text in UTF-8")]
    return normal_names(found), []


def _unread(container: Container, index: str, why: str) -> Note:
    text = f"{place(container, index)}: names of features are not read: {why}; columns are taken as they stand"
    return Note(UNREAD, text, "warning")
