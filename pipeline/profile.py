"""Where a run happens: workers, threads, memory, TLS. Never changes what is computed, so never enters a fingerprint."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import psutil

from tasks.errors import UsageError

HEAP_KEPT_BYTES = 128 << 20  # freed memory that a worker keeps for the next batch, beside what is in use

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class ProfileError(UsageError):
    """The profile or --scheduler asks for something unknown."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where tasks run.

    scheduler          "serial" (this process), "local:N" (own workers), tcp://..., tls://..., or a scheduler file
    threads            per worker of a local cluster; one is best, results are the same with more
    memory_per_worker  of a local cluster, for example "1.5 GiB"; default: 80 % of this machine's, shared out
    cache              rows kept by a worker between tasks; default: a quarter of its memory, at most 1 GiB
    dashboard          address of a local cluster's dashboard; 127.0.0.1 only unless you say otherwise here
    tls_ca, tls_cert, tls_key   PEM files for tls:// schedulers
    """

    scheduler: str = "local"
    threads: int = 1
    memory_per_worker: str = ""
    cache: str = ""
    dashboard: str = "127.0.0.1:8787"
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    @property
    def is_serial(self) -> bool:
        return self.scheduler == "serial"

    @property
    def local_workers(self) -> int:
        """Workers of a local cluster, 0 when the cluster is somebody else's."""
        if self.is_serial:
            return 1
        found = re.fullmatch(r"local(?::(\d+))?", self.scheduler)
        if not found:
            return 0
        return int(found.group(1) or os.cpu_count() or 1)

    def memory_bytes(self) -> int:
        """Memory of one local worker."""
        if self.memory_per_worker:
            return parse_bytes(self.memory_per_worker, "memory_per_worker")
        return int(0.8 * psutil.virtual_memory().total / max(1, self.local_workers))


def parse_bytes(text: str, name: str) -> int:
    """ "1.5 GiB" -> bytes. Raises ProfileError."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmg]i?)?b?\s*", text.lower())
    try:
        if found is None:
            raise ValueError
        return int(float(found.group(1)) * UNITS[found.group(2) or ""])
    except ValueError:
        raise ProfileError(
            f"{name} = {text!r} is not a size", name, 'write for example "1.5 GiB" or "800 MB"'
        ) from None


def load_profile(file: str | None, **given: Any) -> Profile:
    """The profile of a TOML file, with what the command line gives (values that are not None) put over it.

    Raises ProfileError for a missing file, an unknown key or an unknown scheduler.
    """
    profile = Profile()
    if file is not None:
        try:
            values = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ProfileError(f"the profile cannot be read: {error}", file) from None
        known = {field.name: type(field.default) for field in fields(Profile)}
        for key, value in values.items():
            if key not in known or not isinstance(value, known[key]):
                raise ProfileError(f"{key} = {value!r} is not a setting", file, f"known settings: {', '.join(known)}")
        profile = replace(profile, **values)
    profile = replace(profile, **{key: value for key, value in given.items() if value is not None})
    check_profile(profile)
    return profile


def check_profile(profile: Profile) -> None:
    """Raises ProfileError when the scheduler is of no known form, or a number is out of range."""
    text = profile.scheduler
    if not (profile.local_workers or re.match(r"(tcp|tls)://", text) or Path(text).is_file()):
        hint = "serial, local, local:N, tcp://HOST:PORT, tls://HOST:PORT or an existing scheduler file"
        raise ProfileError(f"--scheduler {text!r} is none of the known forms", "--scheduler", hint)
    if profile.threads < 1:
        raise ProfileError(f"threads = {profile.threads}", "threads", "a whole number >= 1")
    profile.memory_bytes()
    if text.startswith("tls://"):
        _check_tls(profile)


def _check_tls(profile: Profile) -> None:
    for name in ("tls_ca", "tls_cert", "tls_key"):
        path = getattr(profile, name)
        if not Path(path).is_file():
            what = f"{name} = {path!r} is no file" if path else f"a tls:// scheduler needs {name}"
            raise ProfileError(what, name, "PEM files: tls_ca, tls_cert and tls_key of the file that --profile names")
