"""Models in an object store, and files put there."""

from __future__ import annotations

import uuid
from pathlib import Path

import onnx

from pipeline.commands import export
from tasks.models.folder import save_model
from tasks.places import at
from tests.pipeline.cli_caller import labelgrove
from tests.tasks.model_samples import class_table, linear


def test_from_a_store_to_a_store(tmp_path: Path) -> None:
    bucket = at(f"memory://export-{uuid.uuid4().hex}")
    save_model(str(bucket / "models" / "ovr"), linear(1), class_table(9))
    for to in ("npz", "onnx"):
        export(bucket / "models" / "ovr", to, bucket / "files" / f"ovr.{to}")
    (tmp_path / "ovr.onnx").write_bytes((bucket / "files" / "ovr.onnx").read_bytes())
    onnx.checker.check_model(str(tmp_path / "ovr.onnx"), full_check=True)
    said = labelgrove("export", f"{bucket}/models/ovr", "--to", "npz", "-o", f"{bucket}/files/ovr.npz")
    assert said.code == 2
    assert "OutputExists" in said.err
