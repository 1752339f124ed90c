"""Execute the notebooks and keep their outputs: `python -m tests.notebooks.execute [NAME ...]`, no name for all.

They are executed in one temporary folder, in order, so what one has made is there for the next; each works alone, too.
What is written depends on the cells and on what they compute alone: no times, no paths, no versions of the front end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.util import run_sync
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMEOUT = 240  # seconds of a cell: the first of a checkout compiles kernels
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def executed(notebook: Path, folder: Path) -> NotebookNode:
    """The notebook as it is after all its cells were executed in a folder; the file stays as it is.

    Raises nbclient's CellExecutionError for the first cell that fails.
    """
    found = nbformat.read(notebook, as_version=4)
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(places), "PYTHONWARNINGS": "default"}
    resources = {"metadata": {"path": str(folder)}}
    with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:  # that no other user can reach; of a short path
        options = {"kernel_name": "python3", "transport": "ipc", "connection_file": f"{sockets}/kernel.json"}
        kernel = AsyncKernelManager(**options)
        times = {"timeout": TIMEOUT, "startup_timeout": TIMEOUT, "record_timing": False}
        try:
            NotebookClient(found, kernel, resources=resources, **times).execute(env=env)
        finally:  # nbclient leaves alone what it has not made
            if kernel.has_kernel:
                run_sync(kernel.shutdown_kernel)(now=True)
    return normal(found)


def normal(notebook: NotebookNode) -> NotebookNode:
    """Without what depends on the front end or the machine."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for place, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{place:02d}"
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = [_normal_output(one) for one in _joined(cell.outputs)]
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Pieces of one stream, which come as they are flushed, as one."""
    found: list[NotebookNode] = []
    for one in outputs:
        same = found and one.output_type == found[-1].output_type == "stream" and one.name == found[-1].name
        if same:
            found[-1].text += one.text
        else:
            found.append(one)
    return found


def _normal_output(output: NotebookNode) -> NotebookNode:
    if "metadata" in output:
        output.metadata = nbformat.from_dict({})
    data: dict[str, Any] = output.get("data", {})
    if any(kind.startswith(("image/", "text/html")) for kind in data):
        data.pop("text/plain", None)  # of an object that has a picture it says where it is, or the same again
    return output


def main(names: list[str]) -> None:
    chosen = [one for one in NOTEBOOKS if not names or one.stem in names or one.name in names]
    if not chosen:
        raise SystemExit(f"no notebook is called {' or '.join(names)}: {', '.join(one.stem for one in NOTEBOOKS)}")
    with tempfile.TemporaryDirectory(prefix="labelgrove-notebooks-") as folder:
        for notebook in chosen:
            made = executed(notebook, Path(folder))
            spare = notebook.with_name(f".{notebook.name}.partial")
            nbformat.write(made, spare)
            spare.replace(notebook)
            print(f"{notebook.relative_to(ROOT)}: {notebook.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
