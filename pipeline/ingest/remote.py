"""Files at URLs: fetched into a folder, file by file and in bounded pieces, then read like local ones.

What a URL carries to get in (name and password, a query with a signature) is never shown and never kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pipeline.ingest.errors import DamagedInput, SourceMissing, UnknownInput, UnsafePath
from pipeline.ingest.files import by_number
from tasks.errors import LabelgroveError, is_starved
from tasks.files import DiskFull, beside, disk_room
from tasks.remote_path import BOUNDED, bounded, options_of
from tasks.urls import LOCAL, StoreUnreachable, is_silence, package_missing, refuse_unused_secret
from tasks.urls import is_url as is_url
from tasks.urls import shown as shown

PIECE = 2**22  # bytes fetched at a time
CHECKSUMS = ("ETag", "etag", "Content-MD5", "Digest", "md5Hash", "CRC")  # of what stores say about a file, what
TIMES = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "created")  # changes when it does
T = TypeVar("T")


@contextmanager
def remote(folder: Path, say: Callable[[str], None] | None = None) -> Iterator[Remote]:
    """What fetches into `folder`; errors that come out of the block name URLs, not the copies of files."""
    fetcher = Remote(folder, say)
    try:
        yield fetcher
    except LabelgroveError as error:
        fetcher.rename(error)
        raise


class Remote:
    """Copies of what is at URLs."""

    def __init__(self, folder: Path, say: Callable[[str], None] | None = None) -> None:
        self.folder, self.say = folder, say
        self.names: dict[str, str] = {}  # place of a copy -> the URL as it may be shown
        self._count = 0

    def local(self, given: Any, column: bool = False) -> Any:
        """`given` with local paths in place of URLs: a URL, a list with some, or anything else, which stays.

        column  whether a URL may end in :COLUMN
        """
        found: Any = given
        if isinstance(given, list | tuple):
            found = [self.local(item) for item in given]
        elif is_url(given):
            url, _, name = split_column(str(given)) if column else (str(given), "", "")
            paths = self.fetch(url)
            found = paths[0] if len(paths) == 1 else paths
            found = f"{found}:{name}" if name else found
        return found

    def rename(self, error: LabelgroveError) -> None:
        for path, url in self.names.items():
            error.what, error.where, error.hint = (
                text.replace(path, url) for text in (error.what, error.where, error.hint)
            )

    def fetch(self, url: str) -> list[str]:
        """Local paths of what is at a URL: one file, one folder, or the files that a pattern names."""
        said, system, path = shown(url), *_opened(url)
        if url.split("://")[0] in LOCAL:
            return [path]
        place, self._count = self.folder / f"fetched-{self._count}", self._count + 1
        base = PurePosixPath(path.rstrip("/")).name or "data"
        with _named(said):
            if "*" in path:
                names = sorted(system.glob(path), key=lambda name: by_number(Path(name)))
                files = {f"{i}/{PurePosixPath(name).name}": system.info(name) for i, name in enumerate(names)}
                found = [str(place / name) for name in files]
            else:
                files = _listing(system, path, base)
                found = [str(place / base)]
        if not files:
            raise SourceMissing("there is no such file", said, "check the address")
        self.names |= dict(zip(found, [said] * len(found), strict=True)) if "*" not in path else {str(place): said}
        self._fetch_all(system, files, place, said)
        return found

    def _fetch_all(self, system: Any, files: Mapping[str, Mapping[str, Any]], place: Path, said: str) -> None:
        for name in files:
            _refuse_escape(name, said)
        place.mkdir(parents=True, exist_ok=True)
        files = {name: info for name, info in files.items() if not _is_fetched(place / name, info)}
        total = sum(info.get("size") or 0 for info in files.values())
        space = os.statvfs(place)
        if total > space.f_bavail * space.f_frsize:
            free = space.f_bavail * space.f_frsize
            what = f"{total:,} bytes are to be fetched and {free:,} are free"
            raise DiskFull(what, said, "free some space, or write the dataset to another disk")
        if self.say:
            self.say(f"fetching {said}: {len(files):,} files, {total:,} bytes")
        with disk_room(str(place), total):
            for name, info in files.items():
                _fetch_file(system, info, place / name, f"{said}: {name}")


def _listing(system: Any, path: str, base: str) -> dict[str, Mapping[str, Any]]:
    """Files of a path by their names below the copy's folder."""
    info = system.info(path)
    if info.get("type") != "directory" and not path.endswith("/"):
        return {base: info}
    root = path.rstrip("/")
    found = system.find(root, detail=True)
    return {f"{base}/{name[len(root) :].lstrip('/')}": details for name, details in sorted(found.items())}


def _refuse_escape(name: str, said: str) -> None:
    if PurePosixPath(name).is_absolute() or any(part in ("..", "") for part in name.split("/")) or "\0" in name:
        raise UnsafePath(f"the name {name!r} leads out of its folder", said, "rename it where it is")


def _fetch_file(system: Any, info: Mapping[str, Any], path: Path, said: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    spare = beside(path)
    with open(spare, "wb") as copy:
        source = _guarded(said, lambda: system.open(info["name"], "rb"))
        try:
            while piece := _guarded(said, lambda: source.read(PIECE)):
                copy.write(piece)
        finally:
            source.close()
    size, declared = spare.stat().st_size, info.get("size")
    if declared is not None and size != declared:
        raise DamagedInput(f"{size:,} bytes came of {declared:,}", said, "type the same command again")
    os.replace(spare, path)


def _is_fetched(path: Path, info: Mapping[str, Any]) -> bool:
    """Whether an earlier attempt has fetched this file; one whose files may be others has a folder of its own."""
    return info.get("size") is not None and path.is_file() and path.stat().st_size == info["size"]


def state_of(url: str) -> str | None:
    """Names, sizes and versions of the files at a URL, as one text; None where their store tells no versions.

    Raises SourceMissing, PackageMissing, UnknownInput.
    """
    said, system, path = shown(url), *_opened(url)
    with _named(said):
        if "*" in path:
            files = {str(name): system.info(name) for name in sorted(system.glob(path))}
        else:
            files = dict(_listing(system, path, PurePosixPath(path.rstrip("/")).name or "data"))
    versions = {
        name: next((info[key] for key in (*CHECKSUMS, *TIMES) if info.get(key)), None) for name, info in files.items()
    }
    if None in versions.values():
        return None
    told = [f"{name} {info.get('size')} {versions[name]}" for name, info in sorted(files.items())]
    return "\n".join([said, *told])


def _guarded(said: str, work: Callable[[], T]) -> T:
    with _named(said):
        return work()


@contextmanager
def _named(said: str) -> Iterator[None]:
    """Whatever goes wrong far away, without the text of the error: it may show the whole URL."""
    try:
        yield
    except LabelgroveError:
        raise
    except FileNotFoundError as error:
        cause = error.__cause__  # fsspec says of whatever goes wrong over HTTP that there is no such file
        if is_silence(cause):
            raise _silent(cause, said) from None
        status = getattr(cause, "status", 404)
        if status not in (404, 410):
            what = f"it cannot be read ({type(cause).__name__} {status})"
            raise SourceMissing(what, said, "check the address and what lets you in") from None
        raise SourceMissing("there is no such file", said, "check the address") from None
    except ImportError as error:
        raise package_missing(said.split("://")[0], error) from None
    except Exception as error:
        if is_starved(error):
            raise
        if is_silence(error):
            raise _silent(error, said) from None
        status = getattr(error, "status", None) or getattr(error, "errno", None)
        what = f"it cannot be read ({type(error).__name__}{f' {status}' if status else ''})"
        raise SourceMissing(what, said, "check the address, the connection and what lets you in") from None


def _silent(error: BaseException | None, said: str) -> StoreUnreachable:
    what = f"the server does not answer ({type(error).__name__})"
    return StoreUnreachable(what, said, "check the address and the connection, then type the same command again")


def _opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    import fsspec
    from fsspec.core import url_to_fs

    refuse_unused_secret(url)
    said, protocol = shown(url), url.split("://")[0]
    protocols = [part.split("://")[0] for part in url.split("::") if "://" in part]
    unknown = [name for name in protocols if name not in fsspec.available_protocols()]
    if unknown:
        known = ", ".join(sorted(fsspec.available_protocols()))
        raise UnknownInput(f"no protocol is called {unknown[0]!r}", said, f"known protocols: {known}")
    for name in protocols:
        try:
            fsspec.get_filesystem_class(name)
        except ImportError as error:
            raise package_missing(name, error) from None
    with _named(said):
        system, path = url_to_fs(url, **{name: options_of(name) for name in protocols if name in BOUNDED})
        bounded(system)
    return system, str(path) + ("/" if protocol not in LOCAL and url.endswith("/") else "")


def split_column(url: str) -> tuple[str, str, str]:
    """A URL and the column behind its last colon, if the last part of its path has one."""
    start = url.rfind("/") + 1
    name, colon, column = url[start:].rpartition(":")
    if not colon or name.endswith(":"):
        return url, "", ""
    return url[:start] + name, colon, column
