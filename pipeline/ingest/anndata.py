"""The layout of AnnData files, .h5ad or zarr: X, layers and obsm hold rows, columns of obs hold labels.

Read as plain arrays; the package itself is not needed.
"""

from __future__ import annotations

from pipeline.ingest.candidates import ROWS_AT, one_of
from pipeline.ingest.containers import ARRAY, GROUP, Container, is_sparse, no_text, normal_name, text_attr

X = "X"


def is_anndata(container: Container) -> bool:
    if container.kind("") != GROUP:
        return False
    if text_attr(container.attrs(""), "encoding-type") == "anndata":
        return True
    return {X, "obs", "var"} <= set(container.children(""))


def x_places(container: Container, asked: str | None) -> str:
    """X, unless another matrix is named."""
    found = [X] if container.kind(X) else []
    for group in ("layers", "obsm", "raw"):
        if container.kind(group) == GROUP:
            names = [X] if group == "raw" else container.children(group)
            found += [f"{group}/{name}" for name in names if _is_matrix(container, f"{group}/{name}")]
    wanted = X if asked is None and X in found else asked
    name = one_of(found, None if wanted is None else normal_name(wanted), "rows", ROWS_AT, str(container.path))
    if container.kind(name) == ARRAY:
        no_text(container.array(name))
    return name


def _is_matrix(container: Container, name: str) -> bool:
    return container.kind(name) == ARRAY or is_sparse(container, name)


def open_obs(asked: str) -> str:
    """A column of obs, named with or without that word."""
    name = normal_name(asked)
    return name if name.startswith("obs/") else f"obs/{name}"


def obs_places(container: Container) -> list[str]:
    """Columns of obs that may be labels: names or integers, without the index."""
    if container.kind("obs") != GROUP:
        return []
    index = text_attr(container.attrs("obs"), "_index") or "_index"
    found = []
    for child in container.children("obs"):
        name = f"obs/{child}"
        if child in (index, "__categories"):
            continue
        if container.kind(name) == GROUP or container.array(name).dtype.kind in "iuUSOT":
            found.append(name)
    return found


def column_text(container: Container, name: str) -> str:
    """What a column of obs holds, as far as the file declares it: names of how many kinds, text or integers."""
    if container.kind(name) == GROUP:
        if container.kind(f"{name}/categories") == ARRAY:
            shape = container.array(f"{name}/categories").shape
            return f"{shape[0] if shape else 0:,} names"
        return "values with gaps" if container.kind(f"{name}/mask") == ARRAY else "a group"
    return "integers" if container.array(name).dtype.kind in "iu" else "text"
