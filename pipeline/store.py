"""The run folder: steps with their DONE.json, written last; manifest, metrics, models, predictions; swept and verified.

Nothing is judged by "file exists": a step is done when its DONE.json is there, carries the fingerprint that is asked
for, and every file it names has the bytes and digest it says.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.event_log import bytes_of, log_at
from tasks.digest import digest_text
from tasks.errors import ArtefactError
from tasks.files import beside, disk_room, remove_all, remove_file, replace_file, sync_path
from tasks.places import is_remote, remove_folder, sizes_below, told_below, write_whole
from tasks.versions import told_of

FORMAT, VERSION = "labelgrove.run", 1
DONE, MANIFEST = "DONE.json", "manifest.json"
PROGRESS = "progress"  # of a step: what an interrupted attempt continues from, gone when it is finished
SOLVED = "solved"  # of a run: what its steps share while they work, gone when all are finished
EVENTS = "events.jsonl"
READERS = 8  # objects of a store that are read at the same time
TOLD = "told"  # of DONE.json, in object stores alone
SEAL = "seal"  # of a JSON file that carries the digest of its own content
MAX_JSON_BYTES = 256 << 20
NO_FILE = {  # what may stand in the place of a file, and is as good as a damaged one
    errno.EISDIR: "a folder lies in the place of this file",
    errno.ELOOP: "a link that leads to itself lies in the place of this file",
}
STEP_AGAIN = "the step that wrote it will be made again"
BROKEN_MANIFEST = "remove this file and type the same `labelgrove run` again: finished steps carry their own digests"
# What our writers (first form) and zarr's (second) call a file or folder before they rename it.
UNFINISHED = re.compile(r"\..*\.partial(-.*)?|.*\.[0-9a-f]{32}\.partial")


class StepDamaged(ArtefactError):
    """A finished step's file is missing or has other content than when it was finished."""


class RunFormat(ArtefactError):
    """A file of the run folder cannot be read, or is of a newer version."""


@dataclass(frozen=True)
class Done:
    """What DONE.json says of a finished step.

    digest   of the content the step made: the same for any number of workers, faults and resumes
    files    path within the step folder -> [bytes, digest of the file]
    results  plain values the step hands to later steps and to the report, part of the content
    measured seconds, bytes, rows/s: differ from run to run
    told     in an object store: path -> version of the object as the store tells it
    """

    step: str
    fingerprint: str
    code: int  # the stage's version
    seed: int
    digest: str
    inputs: dict[str, str]
    settings: dict[str, Any]
    files: dict[str, list[Any]]
    results: dict[str, Any]
    measured: dict[str, Any]
    told: dict[str, str] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(int(size) for size, _ in self.files.values())


def plain(value: Any) -> Any:
    """JSON's own values: infinite and undefined numbers become null, tuples lists, NumPy scalars numbers."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all: temporary name, fsync, rename."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def write_text(path: Path, text: str) -> None:
    """Whole or not at all: temporary name, fsync, rename. Raises DiskFull."""
    data = text.encode("utf-8", "surrogatepass")
    if is_remote(path):
        write_whole(path, data)
        return
    spare = beside(path)
    with disk_room(str(path), len(data)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(spare, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        replace_file(spare, path)
        sync_path(str(path.parent))


def seal_of(values: dict[str, Any]) -> str:
    """Digest of JSON values, whatever the order of their keys."""
    plain_values = json.loads(json.dumps(values))
    return digest_text(json.dumps(plain_values, sort_keys=True))


def write_sealed(path: Path, values: dict[str, Any]) -> None:
    """As `write_json`, with the digest of the values among them: DONE.json and the manifest decide what is believed."""
    write_json(path, {**values, SEAL: seal_of(values)})


def read_sealed(path: Path, hint: str = STEP_AGAIN) -> dict[str, Any]:
    """Raises FileNotFoundError, or RunFormat when a single character is not what was written."""
    data = _content(path, hint)
    values = _parsed(data, path, hint)
    whole = data.endswith(b"\n")  # its last character is none of the values'
    if not whole or not isinstance(values, dict) or values.pop(SEAL, None) != seal_of(values):
        raise RunFormat("its content is not what was written", str(path), hint)
    return values


def read_manifest(folder: RunFolder) -> dict[str, Any]:
    """What the run folder says of itself. Raises FileNotFoundError, RunFormat when damaged or of a newer labelgrove."""
    place = folder / MANIFEST
    version = _version_of(place)
    if isinstance(version, int) and version > VERSION:
        what = f"the run folder is of format {version}, this labelgrove knows {VERSION}"
        raise RunFormat(what, str(place), "use the labelgrove that made it, or another --runs folder")
    manifest = read_sealed(place, BROKEN_MANIFEST)
    if not (isinstance(manifest.get("identity"), dict) and isinstance(manifest.get("steps"), dict)):
        raise RunFormat("it is no manifest of ours", str(place), BROKEN_MANIFEST)
    return manifest


def _version_of(place: Path) -> Any:
    """The version that a manifest claims, whatever else a newer one may hold."""
    values = read_json(place, BROKEN_MANIFEST)
    return values.get("version") if isinstance(values, dict) else None


def read_json(path: Path, hint: str = STEP_AGAIN) -> Any:
    """Raises FileNotFoundError, or RunFormat when it is not the JSON that we write."""
    return _parsed(_content(path, hint), path, hint)


def _content(path: Path, hint: str) -> bytes:
    try:
        if not is_remote(path) and path.stat().st_size > MAX_JSON_BYTES:
            raise RunFormat(f"not readable: larger than {MAX_JSON_BYTES:,} bytes", str(path), hint)
        return path.read_bytes()
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        raise RunFormat(f"not readable: {NO_FILE[error.errno]}", str(path), hint) from None


def _parsed(data: bytes, path: Path, hint: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RunFormat(f"not readable: {error}", str(path), hint) from None


def bytes_digest(data: bytes) -> str:
    """BLAKE2b-128 of bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def file_digest(path: Path, size: int | None = None) -> str:
    """BLAKE2b-128 of a file's bytes; of an object `size` saves asking for it."""
    state = hashlib.blake2b(digest_size=16)
    if is_remote(path):
        for piece in path.pieces(size):
            state.update(piece)
        return state.hexdigest()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            state.update(chunk)
    return state.hexdigest()


def described(path: Path) -> tuple[int, str, str]:
    """Bytes and digest of a file, and in an object store its version as the store tells it."""
    if not is_remote(path):
        return path.stat().st_size, file_digest(path), ""
    info = path.info_of()
    return int(info["size"]), file_digest(path, int(info["size"])), told_of(info)


def digests_of(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Digest of each of some files of a folder, of which the sizes are known; a store's are read side by side."""
    if not is_remote(folder):
        return {name: file_digest(folder / name) for name in sizes}
    with ThreadPoolExecutor(READERS) as threads:
        return dict(zip(sizes, threads.map(lambda name: file_digest(folder / name, sizes[name]), sizes), strict=True))


def files_below(folder: Path) -> Iterator[str]:
    """Relative paths of the files that are content, in order; DONE.json and what is unfinished are not."""
    return (name for name in sizes_below(folder) if _is_content(PurePosixPath(name)))


def _is_content(name: PurePosixPath) -> bool:
    whole = name.parts[0] != PROGRESS and not any(UNFINISHED.fullmatch(part) for part in name.parts)
    return whole and name.as_posix() != DONE


def unfinished_below(folder: Path) -> Iterator[Path]:
    """Files and folders that writers have left under a temporary name; nothing below such a folder."""
    if is_remote(folder):  # objects are put whole, under their own names
        return
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files) if UNFINISHED.fullmatch(name))
        folders[:] = [name for name in folders if not UNFINISHED.fullmatch(name)]


def bytes_below(folder: Path) -> int:
    """What all files below a folder take on the disk; 0 when it is not there, vanishes, or is on no disk."""
    total = 0
    if is_remote(folder):
        return total
    for place, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += 512 * os.stat(Path(place, name), follow_symlinks=False).st_blocks
    return total


class RunFolder:
    """runs/NAME: where everything of a run lives."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def step_folder(self, step: str, fingerprint: str) -> Path:
        return self.path / "steps" / f"{step}-{fingerprint[:12]}"

    def done(self, step: str, fingerprint: str) -> Done | None:
        """What the finished step says, None when it is not finished (or its DONE.json cannot be read)."""
        try:
            values = read_sealed(self.step_folder(step, fingerprint) / DONE)
            found = Done(**{name: values[name] for name in Done.__dataclass_fields__ if name in values or name != TOLD})
        except (FileNotFoundError, NotADirectoryError, RunFormat, KeyError, TypeError):
            return None
        return found if found.fingerprint == fingerprint and found.step == step else None

    def finish(self, done: Done) -> None:
        """Write DONE.json: from here on the step counts as made."""
        folder = self.step_folder(done.step, done.fingerprint)
        remove_folder(folder / PROGRESS)
        if (folder / DONE).is_dir():  # all below a step's folder is ours
            remove_folder(folder / DONE)
        values = {name: getattr(done, name) for name in Done.__dataclass_fields__ if name != TOLD or done.told}
        write_sealed(folder / DONE, {"format": "labelgrove.step", "version": VERSION, **values})

    def describe_files(self, step: str, fingerprint: str) -> dict[str, list[Any]]:
        folder = self.step_folder(step, fingerprint)
        sizes = {name: size for name, size in sizes_below(folder).items() if _is_content(PurePosixPath(name))}
        return {name: [sizes[name], digest] for name, digest in digests_of(folder, sizes).items()}

    def damage(self, done: Done, read: str = "", again: bool = False) -> list[StepDamaged]:
        """What is wrong with a finished step's files: presence and size of all, content of those that are read.

        read   how the names of these begin; "" for all
        again  read also objects of which the store tells the version that they were written in
        """
        folder = self.step_folder(done.step, done.fingerprint)
        found, there = [], sizes_below(folder)
        told = {} if again or not done.told else told_below(folder)
        whole = {
            name: size
            for name, (size, _) in done.files.items()
            if there.get(name) == size and name.startswith(read) and (name not in told or told[name] != done.told[name])
        }
        digests = digests_of(folder, whole)
        for name, (size, digest) in done.files.items():
            path = folder / name
            why = ""
            if name not in there:
                why = "is missing"
            elif there[name] != size:
                why = f"has {there[name]:,} bytes, was written with {size:,}"
            elif name in digests and digests[name] != digest:
                why = "has other content than was written"
            if why:
                hint = "type the same `labelgrove run` again: the step is made anew"
                found.append(StepDamaged(f"{name} {why}", str(path), hint))
        return found

    def discard(self, step: str, fingerprint: str) -> None:
        """Forget a damaged step: DONE.json first, so that a kill in between leaves an unfinished step."""
        self.discard_path(self.step_folder(step, fingerprint))

    def discard_path(self, folder: Path) -> None:
        """The same by folder; a file goes as it is."""
        if folder.is_file() or folder.is_symlink():
            folder.unlink()
            return
        if is_remote(folder):
            (folder / DONE).unlink(missing_ok=True)
        else:
            remove_all(folder / DONE)
        remove_folder(folder)

    def sweep(self) -> None:
        """Remove what killed writers left: partial files, scratch of earlier pools."""
        remove_folder(self.path / "scratch")
        for leftover in list(unfinished_below(self.path)):
            remove_folder(leftover)

    def forget_solved(self) -> None:
        """Remove what steps have shared: all are finished."""
        remove_folder(self.path / SOLVED)

    def stale_steps(self, wanted: Iterable[tuple[str, str]]) -> list[Path]:
        """Step folders that no step of the config needs."""
        keep = {self.step_folder(step, fingerprint) for step, fingerprint in wanted}
        steps = self.path / "steps"
        return sorted(path for path in steps.iterdir() if path not in keep) if steps.is_dir() else []

    def event(self, kind: str, **fields: Any) -> None:
        """Append one line to events.jsonl. Raises DiskFull."""
        text = json.dumps({"time": round(time.time(), 3), "event": kind, **fields}, ensure_ascii=False, default=str)
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        path = self.path / EVENTS
        if is_remote(path):
            log_at(path).add(line, kind)
            return
        if path.is_dir() or (path.is_symlink() and not path.exists()):  # nothing is lost with these
            remove_file(path)
        with disk_room(str(path), len(line)), open(path, "a+b") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line  # a killed writer's torn line stays its own
            file.write(line)

    def events_mark(self) -> list[Any]:
        """[bytes, digest] of the events so far: more may follow, these stay as they are."""
        data = self._events()
        return [len(data), bytes_digest(data)]

    def _events(self) -> bytes:
        path = self.path / EVENTS
        if is_remote(path):
            return bytes_of(path)
        try:
            return path.read_bytes()
        except OSError as error:  # none yet, or something that is no file
            if error.errno not in (errno.ENOENT, *NO_FILE):
                raise
            return b""

    def events(self) -> list[dict[str, Any]]:
        """All readable events, oldest first."""
        found = []
        for line in self._events().decode("utf-8", "replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                found.append(event)
        return found
