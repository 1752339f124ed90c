"""What differs between the parts of a cluster, as a table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pipeline.connection.agreement import (
    OF_A_SCHEDULER,
    PACKAGES,
    SOURCES,
    Part,
    bits_warning,
    compared,
    facts_here,
    joined,
    looker,
    mismatch,
)
from tests.systems.harness import ROOT

HERE = {
    "python": "3.11",
    "dask": "2",
    "numpy": "2.4",
    "tasks": "aa",
    "tasks at": "/a",
    "BLAS kernels": "Zen",
    "machine": "x",
}
EVERY = tuple(compared([*HERE]))


def worker(name: str, **other: str) -> Part:
    return Part(name, {**HERE, **other}, EVERY)


def test_the_same_everywhere_is_no_mismatch() -> None:
    elsewhere = {**HERE, "tasks at": "/elsewhere", "BLAS kernels": "Haswell"}  # neither is a reason to stop
    assert mismatch(HERE, [worker("w1"), Part("w2", elsewhere, EVERY)]) is None


def test_only_what_differs_is_told_and_those_that_agree_share_a_column() -> None:
    parts = [
        Part("scheduler", HERE, OF_A_SCHEDULER),
        worker("w1", numpy="2.3"),
        worker("w2"),
        worker("w3", numpy="2.3"),
    ]
    error = mismatch(HERE, parts)
    assert error is not None
    assert (error.exit_code, error.where) == (6, "w1")
    head, line = (" ".join(line.split()) for line in error.what.splitlines()[1:3])
    assert head == "here scheduler, w2 w1, w3"
    assert line == "numpy 2.4 2.4 2.3"
    assert "tasks" not in error.what


def test_where_sources_come_from_stands_below_their_digest() -> None:
    error = mismatch(HERE, [worker("w1", tasks="bb", **{"tasks at": "/b"})])
    assert error is not None
    assert [line.split() for line in error.what.splitlines()[2:4]] == [
        ["tasks", "aa", "bb"],
        ["tasks", "at", "/a", "/b"],
    ]


def test_a_scheduler_may_lack_what_it_does_not_use_but_not_have_another() -> None:
    bare = {"python": "3.11", "dask": "2"}
    assert mismatch(HERE, [Part("scheduler", bare, OF_A_SCHEDULER)]) is None
    assert mismatch(HERE, [Part("scheduler", {**bare, "numpy": "1"}, OF_A_SCHEDULER)]) is not None
    assert mismatch(HERE, [Part("scheduler", {"python": "3.11"}, OF_A_SCHEDULER)]) is not None
    assert mismatch(HERE, [Part("w1", bare, EVERY)]) is not None


def test_other_processors_are_a_warning() -> None:
    assert bits_warning(HERE, [worker("w1")]) == ""
    text = bits_warning(HERE, [worker("w1"), worker("w2", **{"BLAS kernels": "Haswell"})])
    assert text.splitlines()[-1].split() == ["BLAS", "kernels", "Zen", "Zen", "Haswell"]


def test_the_processor_of_a_scheduler_is_no_warning() -> None:
    elsewhere = Part("scheduler", {**HERE, "BLAS kernels": "Haswell", "machine": "y"}, OF_A_SCHEDULER)
    assert bits_warning(HERE, [elsewhere, Part("bare", {}, OF_A_SCHEDULER), worker("w1")]) == ""


def test_the_blas_that_opencv_brings_is_not_ours() -> None:
    """A driver that has decoded images has it loaded, a worker that has not does not: they compute the same."""
    bare = "from pipeline.connection.agreement import facts_here; print(facts_here()['BLAS kernels'])"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("OPENBLAS_")}
    told = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        for code in (bare, f"import cv2\n{bare}")
    ]
    assert told[0].stdout == told[1].stdout != "\n"


def test_many_workers_are_counted() -> None:
    assert joined([f"w{i}" for i in range(7)]) == "w0, w1, w2 and 4 more"


def test_the_facts_of_this_process_are_whole() -> None:
    facts = facts_here()
    wanted = {"python", "machine", "BLAS kernels", *PACKAGES, *SOURCES, *(f"{name} at" for name in SOURCES)}
    assert wanted == facts.keys()
    assert all(facts.values())


def test_the_digest_is_of_names_and_contents_of_sources(tmp_path: Path) -> None:
    package = tmp_path / "grove_of_a_test"
    package.mkdir()
    look = looker((), (package.name,))
    sys.path.insert(0, str(tmp_path))
    try:
        digests = []
        for name, text in [("__init__.py", ""), ("a.py", "x = 1\n"), ("a.py", "x = 2\n"), ("b.py", ""), ("c.txt", "x")]:
            (package / name).write_text(text)
            digests.append(look()[package.name])
    finally:
        sys.path.remove(str(tmp_path))
    assert len(set(digests[:4])) == 4
    assert digests[4] == digests[3]
    assert look().keys() == {"python", "machine", "BLAS kernels"}  # nobody has such a package any more
