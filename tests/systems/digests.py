"""One digest for every artefact of a finished run: what must be the same for any workers, threads, faults, resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.run_check import run_problems
from pipeline.stages.publish import deterministic
from pipeline.store import MANIFEST, RunFolder, file_digest, read_json, read_sealed
from tasks.digest import combine, digest_arrays, digest_text
from tasks.io import blocks_of, facts_of, load_rows, read_codebooks, rows_digest
from tasks.models.folder import verify_model
from tasks.models.predictions import read_part
from tasks.retrieval.neighbours import read_neighbours

MEASURED = ("peak_bytes", "seconds")  # of the "run" part of metrics.json


def digests_of(run: Path) -> dict[str, str]:
    """Name of the artefact -> digest of its content, decoded again from the files.

    Covers what every step says it made, encoded rows and what encodes them, neighbours, models (content, and weights
    byte for byte), decoded predictions, and metrics.json without what is measured.
    """
    folder, manifest = RunFolder(run), read_sealed(run / MANIFEST)
    found = {}
    for name, step in manifest["steps"].items():
        done = folder.done(name, step["fingerprint"])
        assert done is not None, f"{name} is in the manifest and not finished"
        found[f"step {name}"] = done.digest
        found[f"results of {name}"] = _text(done.results)
        place = folder.step_folder(name, step["fingerprint"])
        if (place / "rows.zarr").is_dir():
            found[f"rows of {name}"] = _rows(str(place / "rows.zarr"))
        for encoder in sorted(place.glob("encoder/*")):
            found[f"{encoder.name} of {name}"] = file_digest(encoder)
        for neighbours in place.glob("neighbours.parquet"):
            found[f"neighbours of {name}"] = read_neighbours(neighbours).digest()
    for model in sorted((run / "models").iterdir()):
        found[f"model {model.name}"] = verify_model(model)
        found[f"weights of {model.name}"] = file_digest(model / "weights.safetensors")
    for predictions in sorted((run / "predictions").iterdir()):
        found[f"predictions {predictions.stem}"] = read_part(predictions).digest()
    metrics = read_json(run / "metrics.json")
    found["metrics of models"] = _text(deterministic(metrics["models"]))
    found["metrics of the run"] = _text({k: v for k, v in metrics["run"].items() if k not in MEASURED})
    return found


def _rows(store: str) -> str:
    """All blocks of an encoding, and the codebooks of one that has them."""
    blocks = [rows_digest(load_rows(block)) for block in blocks_of(store)]
    books = [digest_arrays(read_codebooks(store))] if facts_of(store).body == "pq" else []
    return combine([*blocks, *books])


def _text(value: Any) -> str:
    return digest_text(json.dumps(value, sort_keys=True))


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Names of the artefacts that differ, or that only one side has."""
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def assert_same(expected: dict[str, str], run: Path) -> None:
    """The run has every artefact that is expected, with the same digest, and nothing of it is damaged."""
    assert len(expected) > 20
    assert differences(expected, digests_of(run)) == []
    assert list(run_problems(RunFolder(run))) == []
