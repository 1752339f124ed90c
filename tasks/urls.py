"""URLs of stores: which text is one, how it may be shown, and which are refused.

Nothing that lets somebody in stands in a URL here: it would come to tasks, manifests and logs. Credentials come from
the environment or from the usual files of each store.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.errors import LabelgroveError, UsageError

URL = r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://"
SILENCE = r"Connect|Timeout|DNSError|ServerDisconnected"  # in names of clients' errors
CLIENTS = (  # packages whose errors are a store's; those of the system come as OSError
    *("botocore", "aiobotocore", "aiohttp", "s3fs", "fsspec", "gcsfs", "google", "adlfs", "azure", "asyncio"),
    *("paramiko", "smbprotocol", "urllib3", "requests", "pyarrow.fs"),
)
LOCAL = ("file", "local")
PER_PROCESS = ("memory",)  # protocols whose content other processes do not see
ONLY_READ = ("http", "https", "data", "zip", "tar", "github", "git", "jupyter", "libarchive", "reference")
KEYS_APART = ("s3", "s3a", "gs", "gcs")  # stores that take no user or password from a URL
WAYS_IN = "credentials come from the environment (AWS_ACCESS_KEY_ID ...) or from the usual files, never from a URL"
EXTRAS = {
    "s3": "labelgrove[s3]",
    "s3a": "labelgrove[s3]",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
}


class PackageMissing(UsageError):
    """What is needed to read this kind of address is not installed."""


class UrlRefused(UsageError):
    """A URL that cannot name a dataset, a run folder or a model: with a password in it, or of an unknown protocol."""


class StoreMissing(UsageError):
    """The bucket (or its like) that a URL names is not there."""


class StoreRefused(UsageError):
    """The store does not let us in, or not do this."""


class StoreUnreachable(LabelgroveError):
    """The store does not answer, or answers with errors, after several attempts."""

    exit_code = 6


def is_url(given: object) -> bool:
    """Whether a text is a URL of any protocol."""
    return isinstance(given, str) and re.match(URL, given) is not None


def shown(url: str) -> str:
    """A URL as it may be shown: without user, password and query. Other text stays as it is."""
    if not is_url(url):
        return url
    return "::".join(_shown_part(part) if "://" in part else part for part in url.split("::"))


def _shown_part(part: str) -> str:
    """A password may hold any sign: what could be one is cut off, whatever else goes with it."""
    start, query = re.match(r"([^?#]*)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
    if "@" in query and "@" not in start and re.search(r"://[^/]*:(?![0-9]+(/|$))", start):
        return start.split("://")[0] + "://..."
    return re.sub(r"(?<=://).*@", "", start, flags=re.DOTALL)


def refuse_unused_secret(url: str) -> None:
    """Raises UrlRefused for a user or password in the URL of a store that would not use it, also of one within another.

    A key may hold an @, and the place of a bucket be named by colons (arn:...).
    """
    for part in url.split("::"):
        protocol, _, rest = part.partition("://")
        bucket = rest.split("/")[0]
        if protocol in KEYS_APART and ("@" in bucket or (":" in bucket and not bucket.startswith("arn:"))):
            raise UrlRefused(f"{protocol}:// takes no user and no password", shown(url), WAYS_IN)


def is_silence(error: BaseException | None) -> bool:
    """Whether an error, or what it was made of, says that no server has answered."""
    while error is not None:
        kind = type(error).__name__
        if isinstance(error, ConnectionError | TimeoutError | socket.gaierror) or re.search(SILENCE, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def names_a_store(url: str) -> bool:
    """Whether a URL can name what labelgrove has written there, rather than a file of somebody's to be fetched."""
    try:
        check_url(url)
    except UrlRefused:
        return False
    return True


def check_url(url: str) -> str:
    """The URL without a closing slash; of local files their path. Raises UrlRefused."""
    said, protocol = shown(url), url.split("://")[0]
    if "::" in url.split("://")[0]:
        hint = "fetch and unpack it, or `labelgrove ingest` from it"
        raise UrlRefused("a URL within another names no place to work in", said, hint)
    if protocol in LOCAL:
        return url.split("://", 1)[1]
    if protocol in ONLY_READ:
        hint = "fetch it, or `labelgrove ingest` from it"
        raise UrlRefused(f"{protocol}:// is only read from", said, hint)
    if said != url:
        raise UrlRefused("it holds a user, a password or a query", said, WAYS_IN)
    parts = url.split("://", 1)[1].rstrip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise UrlRefused("a part of its path is empty or leads up", said, "write it as protocol://bucket/folder/name")
    return url.rstrip("/")


def package_missing(protocol: str, error: ImportError) -> PackageMissing:
    """Which package a protocol needs."""
    from fsspec.registry import known_implementations

    package = EXTRAS.get(protocol) or {"http": "aiohttp requests", "https": "aiohttp requests"}.get(protocol)
    if package is None:
        place = known_implementations.get(protocol, {}).get("class", "")
        package = place.split(".")[0] if place and not place.startswith("fsspec") else (error.name or protocol)
    package = f'"{package}"' if "[" in package else package
    return PackageMissing(f"{protocol}:// needs a package that is not installed", protocol, f"pip install {package}")


@contextmanager
def named(url: object) -> Iterator[None]:
    """Whatever a store answers as a named error with the URL; what is missing stays a FileNotFoundError.

    The text of other errors is not shown: it may hold what lets us in.
    """
    try:
        yield
    except (LabelgroveError, MemoryError, FileExistsError, IsADirectoryError, NotADirectoryError):
        raise
    except FileNotFoundError as error:
        if _is_local(error):
            raise
        if "bucket" in str(error).lower() and "does not exist" in str(error):
            hint = "make the bucket, or check its name and the endpoint"
            raise StoreMissing("there is no such bucket", shown(str(url)), hint) from None
        raise FileNotFoundError(error.errno or 2, "no such object", shown(str(url))) from None
    except Exception as error:
        if _is_local(error):
            raise
        raise _named(error, shown(str(url))) from None


def _is_local(error: Exception) -> bool:
    """Whether an error is of a local file, or of what was read rather than of the store."""
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return True
        return isinstance(error.filename, str | bytes | Path) and os.path.isabs(error.filename)
    return type(error).__module__.split(".")[0] not in CLIENTS


def _named(error: Exception, said: str) -> LabelgroveError:
    kind = type(error).__name__
    if isinstance(error, PermissionError) or "Credentials" in kind or "Token" in kind or "Profile" in kind:
        return StoreRefused(f"the store does not let us in ({kind})", said, f"check what lets you in: {WAYS_IN}")
    if kind == "ParamValidationError" or (isinstance(error, OSError) and "bucket is not valid" in str(error)):
        return UrlRefused("the store knows no such name", said, "check the bucket's name")
    status = getattr(error, "errno", None) or getattr(error, "status", None)
    what = f"the store does not answer as it should ({kind}{f' {status}' if status else ''})"
    hint = "check the endpoint and the connection, then type the same command again: finished work is kept"
    return StoreUnreachable(what, said, hint)
