"""Why a step is not reused, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.store import DONE, Done, RunFolder, RunFormat, read_sealed

if TYPE_CHECKING:
    from pipeline.stage import Stage


def why_not(stage: Stage, mark: str, folder: RunFolder, changed: set[str]) -> str:
    """Why no finished step can be reused, in words."""
    if folder.step_folder(stage.name, mark).is_dir():
        return "unfinished: continues"
    earlier = earlier_steps(stage.name, folder)
    if not earlier:
        return "new"
    last = earlier[-1]
    reasons = []
    if last.code != stage.version:
        reasons.append(f"code version {last.code} -> {stage.version}")
    reasons += differences(last.settings, stage.settings())
    reasons += [f"{name} changes" for name in stage.inputs if name in changed or name not in last.inputs]
    return "; ".join(reasons) or "its inputs were made from other settings"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """key: old -> new for every setting that differs."""
    before, after = ({key: "not set" if value is None else value for key, value in kept.items()} for kept in (old, new))
    return [
        f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key, "not set") != after.get(key, "not set")
    ]


def earlier_steps(name: str, folder: RunFolder) -> list[Done]:
    """Finished steps of this name in the folder, oldest first."""
    found = []
    for path in (folder / "steps").glob(f"{name}-*/{DONE}"):
        try:
            values = read_sealed(path)
            done = folder.done(name, str(values["fingerprint"]))
        except (OSError, RunFormat, KeyError, TypeError):
            continue
        if done is not None:
            found.append((path.stat().st_mtime_ns, done))
    return [done for _, done in sorted(found, key=lambda pair: pair[0])]
