"""Features of images: accuracies in one table, real rows that others made beside ours, images a second of one core.

    python -m tests.bench.image_features tables SHARED/data FOLDER     preset `images` on Tiny ImageNet and on glyphs
    python -m tests.bench.image_features rows SHARED/data FOLDER       bags of words beside those of tinyimagenet-sift
    python -m tests.bench.image_features rates SHARED/data FOLDER      images a second of a core, one worker and two

`rows` needs nothing of `tables`, but takes its run of Tiny ImageNet when it is there. Run on a calm machine with
OPENBLAS_NUM_THREADS=1; the limit beside the rates is the product of descriptors and words by BLAS alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse

from pipeline.demo.images import write_images
from pipeline.store import MANIFEST, RunFolder, read_json, read_sealed
from tasks.features.bow import BowEncoder
from tasks.features.sift import SiftParams
from tasks.features.sift_encoder import SiftEncoder
from tasks.rows import Images
from tests.bench.limits import gemm_rate

JPEG, SIFT = "tinyimagenet-jpeg", "tinyimagenet-sift"
ENCODED = {"bow": "encode_counts", "llc": "encode_llc", "fisher": "encode_fisher"}


def labelgrove(*arguments: object, folder: Path | None = None) -> None:
    print("$ labelgrove", *arguments, flush=True)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    call = [sys.executable, "-m", "pipeline.cli", *map(str, arguments)]
    subprocess.run(call, check=True, cwd=folder, env=environment)


def unpacked(data: Path, folder: Path) -> Path:
    """The image files of Tiny ImageNet as two folders of classes."""
    source, root = data / JPEG, folder / "tiny"
    names, packed = json.loads((source / "class_synsets.json").read_text()), np.load(source / "images.npz")
    for part in ("train", "test"):
        content, ends = packed[f"{part}_bytes"], packed[f"{part}_offsets"]
        for row, label in enumerate(np.load(source / f"y_{part}.npy")):
            place = root / part / names[label]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{row:05d}.jpg").write_bytes(content[ends[row] : ends[row + 1]].tobytes())
    return root


def datasets(data: Path, folder: Path) -> dict[str, Path]:
    """Stores of both sets, made when they are not there."""
    stores = {name: folder / f"{name}.zarr" for name in ("tiny", "glyphs")}
    if not stores["tiny"].exists():
        root = unpacked(data, folder)
        labelgrove("ingest", root / "train", stores["tiny"], "--test-source", root / "test", "--validation", 0)
    if not stores["glyphs"].exists():
        write_images(folder / "glyphs", n_classes=500, copies=1)
        parts = [word for part in ("validation", "test") for word in (f"--{part}-source", folder / "glyphs" / part)]
        labelgrove("ingest", folder / "glyphs" / "train", stores["glyphs"], *parts)
    return stores


def tables(data: Path, folder: Path) -> None:
    for name, store in datasets(data, folder).items():
        labelgrove("run", "images", "--data", store, folder=folder)
        models = read_json(folder / "runs" / f"images-{name}" / "metrics.json")["models"]
        print(f"\n{name}: accuracy, %")
        for learner in ("ncm", "ovr"):
            found = {rows: 100 * models[f"{learner}-{rows}"]["top1"] for rows in ENCODED}
            ordered = found["bow"] < min(found["llc"], found["fisher"])
            print(f"  {learner}  " + "  ".join(f"{rows} {value:5.2f}" for rows, value in found.items()), ordered)


# ---- beside rows that others made ----------------------------------------------------------------------------------


def counted(data: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Counts (n, 1000) of the words of their vocabulary in each image, by our descriptors; labels."""
    packed, words = np.load(data / JPEG / "images.npz"), np.load(data / SIFT / "vocabulary.npy").astype(np.float32)
    images, bow = Images(packed[f"{part}_bytes"], packed[f"{part}_offsets"]), BowEncoder(words)
    sift = SiftEncoder(SiftParams())
    starts = range(0, images.n_rows, 100)
    parts = [bow.encode(sift.encode(images.part(a, min(a + 100, images.n_rows)))).to_array() for a in starts]
    return np.concatenate(parts), np.load(data / JPEG / f"y_{part}.npy")


def their_rows(data: Path, part: str) -> scipy.sparse.csr_matrix:
    """Their rows of the same images: of each class the nearest one, which is the same one but for rounding."""
    own, labels = counted(data, part)
    theirs = scipy.sparse.load_npz(data / SIFT / f"X_{part}.npz").tocsr()
    classes = np.load(data / SIFT / f"y_{part}.npy")
    chosen, away = np.empty(len(own), np.int64), np.empty(len(own))
    for label in np.unique(labels):
        rows, mine = np.flatnonzero(classes == label), np.flatnonzero(labels == label)
        candidates = theirs[rows].toarray()
        for row in mine:
            distances = np.abs(candidates - own[row]).sum(axis=1)
            chosen[row], away[row] = rows[distances.argmin()], distances.min()
    share = away.sum() / own.sum()
    print(
        f"{part}: {np.mean(away == 0):.4f} of {len(own)} rows are equal; {share:.6f} of all words are counted elsewhere"
    )
    assert len(np.unique(chosen)) == len(chosen)
    return theirs[chosen]


CONFIG = """\
name = "{name}"
[data]
path = "{path}"
[[encode]]
name = "roots"
kind = "normalize"
norm = "power"
{rows}
[[encode]]
name = "bow"
kind = "normalize"
rows = "roots"
[[train]]
name = "ncm"
kind = "nearest-class-mean"
rows = "bow"
[[train]]
name = "ovr"
kind = "ovr"
rows = "bow"
"""


def rows(data: Path, folder: Path) -> None:
    """Equal images, equal learners: their vocabulary and rows, and ours."""
    stores, found = datasets(data, folder), {}
    theirs = folder / "theirs.zarr"
    if not theirs.exists():
        for part in ("train", "test"):
            scipy.sparse.save_npz(folder / f"theirs_{part}.npz", their_rows(data, part))
        labels = [
            f"--{name}labels={data / JPEG / f'y_{part}.npy'}" for name, part in (("", "train"), ("test-", "test"))
        ]
        test = ["--test-source", folder / "theirs_test.npz", "--validation", 0]
        labelgrove("ingest", folder / "theirs_train.npz", theirs, *test, *labels)
    ours = '[[encode]]\nname = "sift"\nkind = "sift"\n[[encode]]\nname = "counts"\nkind = "bow"\nrows = "sift"\n'
    for name, path, source in (("theirs", theirs, ""), ("ours", stores["tiny"], 'rows = "counts"')):
        text = CONFIG.format(name=f"rows-{name}", path=path.absolute(), rows=source)
        if source:
            text = text.replace("[[encode]]", f"{ours}[[encode]]", 1)
        (folder / f"rows-{name}.toml").write_text(text)
        labelgrove("run", folder / f"rows-{name}.toml")
        models = read_json(folder / "runs" / f"rows-{name}" / "metrics.json")["models"]
        found[name] = {learner: 100 * models[learner]["top1"] for learner in ("ncm", "ovr")}
    for learner in ("ncm", "ovr"):
        a, b = found["theirs"][learner], found["ours"][learner]
        print(f"{learner}: theirs {a:.2f} %, ours {b:.2f} %, difference {b - a:+.2f} points (2,000 test images)")


# ---- rates -------------------------------------------------------------------------------------------------------


def rates(data: Path, folder: Path) -> None:
    store = datasets(data, folder)["tiny"]
    text = (folder / "images-tiny.toml").read_text() if (folder / "images-tiny.toml").exists() else ""
    if not text:
        labelgrove("run", "images", "--data", store, folder=folder)
        text = (folder / "images-tiny.toml").read_text()
    (folder / "rates.toml").write_text(text[: text.index("[[train]]")].replace("images-tiny", "rates"))
    seconds: dict[int, dict[str, float]] = {}
    for workers in (1, 2):
        runs = folder / f"rates-{workers}-{int(time.time())}"
        labelgrove("run", folder / "rates.toml", "--runs", runs, "--scheduler", f"local:{workers}")
        run, measured = RunFolder(runs / "rates"), {}
        for step, planned in read_sealed(runs / "rates" / MANIFEST)["steps"].items():
            done = run.done(step, planned["fingerprint"])
            assert done is not None
            measured[step] = done.measured
        seconds[workers] = {step: float(values["seconds"]) for step, values in measured.items()}
        print(f"\n{workers} workers: of 6,000 images of 64 x 64")
        for name, step in ENCODED.items():
            rate, share = measured[step]["images_per_core_second"], measured[step]["sift_share"]
            print(f"  {name:6}  {rate:6.0f} images/s a core, {100 * share:.0f} % of it decoding and SIFT")
    print("\ntwo workers beside one, seconds of the whole step")
    for step in seconds[1]:
        if seconds[1][step] > 1:
            a, b = seconds[1][step], seconds[2][step]
            print(f"  {step:28} {a:6.1f} -> {b:6.1f}   {a / b:.2f}x")
    flops = 2 * 128 * 1000 * 128.4  # of an image's descriptors and 1,000 words
    print(f"products of descriptors and 1,000 words by BLAS alone: {gemm_rate() / flops:,.0f} images/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tables", "rows", "rates"])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    {"tables": tables, "rows": rows, "rates": rates}[asked.what](asked.data.absolute(), asked.folder.absolute())


if __name__ == "__main__":
    main()
