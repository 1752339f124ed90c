"""Where a run happens: workers, threads, memory, TLS. Never changes what is computed, so never enters a fingerprint."""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import psutil

from pipeline.connection.addresses import DASHBOARD, SCHEDULER, fault_of_dashboard, fault_of_scheduler, is_loopback
from pipeline.connection.timeouts import Timeouts
from tasks.errors import UsageError

HEAP_KEPT_BYTES = 128 << 20  # freed memory that a worker keeps for the next batch, beside what is in use

TLS = ("tls_ca", "tls_cert", "tls_key")
MOST_WORKERS = MOST_THREADS = 1024  # of one machine; beyond, it is a slip of the pen
MOST_BYTES = 1 << 60
SHOWN = 80  # characters of a value that an error repeats
TYPES: dict[type, str] = {  # as TOML has them
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: 'a text, in quotes ("...")',
    list: "a list",
    dict: "a table",
    Timeouts: "a table of seconds, [timeouts]",
}
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def is_far(scheduler: str | None) -> bool:
    """Whether tasks run where the temporary files of this machine are not, as far as --scheduler tells."""
    return scheduler is not None and re.fullmatch(r"serial|local(:\d+)?", scheduler) is None


class ProfileError(UsageError):
    """The profile or --scheduler asks for something unknown."""


class InsecureScheduler(ProfileError):
    """A scheduler on another machine would be reached without encryption."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where tasks run.

    scheduler          "serial" (this process), "local:N" (own workers), tcp://..., tls://..., or a scheduler file
    threads            per worker of a local cluster; one is best, results are the same with more
    memory_per_worker  of a local cluster, for example "1.5 GiB"; default: 80 % of this machine's, shared out
    cache              rows kept by a worker between tasks; default: a quarter of its memory, at most 1 GiB
    dashboard          address of a local cluster's dashboard; 127.0.0.1 only unless you say otherwise here
    tls_ca, tls_cert, tls_key   PEM files for tls:// schedulers, relative to the profile; default: Dask's own settings
    insecure           reach a scheduler on another machine without encryption
    timeouts           a table [timeouts] of seconds, see `Timeouts`
    """

    scheduler: str = "local"
    threads: int = 1
    memory_per_worker: str = ""
    cache: str = ""
    dashboard: str = "127.0.0.1:8787"
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    insecure: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def is_serial(self) -> bool:
        return self.scheduler == "serial"

    @property
    def local_workers(self) -> int:
        """Workers of a local cluster, 0 when the cluster is somebody else's."""
        if self.is_serial:
            return 1
        found = re.fullmatch(r"local(?::([0-9]{1,9}))?", self.scheduler)
        if not found:
            return 0
        return int(found.group(1) or os.cpu_count() or 1)

    @property
    def address(self) -> str:
        """Of somebody else's scheduler, from its file if that is what is named; "" for our own workers.

        Raises ProfileError for a file that is no scheduler file.
        """
        if self.local_workers:
            return ""
        if "://" in self.scheduler:
            return self.scheduler
        hint = "`dask scheduler --scheduler-file FILE` writes one"
        try:
            address = json.loads(Path(self.scheduler).read_text(encoding="utf-8"))["address"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            what = f"this is no scheduler file ({type(error).__name__})"
            raise ProfileError(what, shown(self.scheduler), hint) from None
        fault = fault_of_scheduler(address) if isinstance(address, str) else "it is no text"
        if fault:
            what = f"this is no scheduler file: its address is {shown(repr(address))}, and {fault}"
            raise ProfileError(what, shown(self.scheduler), hint)
        return str(address)

    @property
    def encrypted(self) -> bool:
        """Whether the scheduler is reached by TLS."""
        return self.address.startswith("tls://")

    def memory_bytes(self) -> int:
        """Memory of one local worker."""
        if self.memory_per_worker:
            return parse_bytes(self.memory_per_worker, "memory_per_worker")
        return int(0.8 * psutil.virtual_memory().total / max(1, self.local_workers))

    def cache_bytes(self) -> int:
        """Rows that a worker keeps, where the profile says it; 0 keeps none."""
        return parse_bytes(self.cache, "cache", least=0)


def parse_bytes(text: str, name: str, least: int = 1) -> int:
    """ "1.5 GiB" -> bytes. Raises ProfileError, also for less than `least`."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmg]i?)?b?\s*", text.lower())
    hint = 'write for example "1.5 GiB" or "800 MB"'
    try:
        if found is None:
            raise ValueError
        size = float(found.group(1)) * UNITS[found.group(2) or ""]  # inf for too many digits
    except ValueError:
        raise ProfileError(f"{name} = {shown(repr(text))} is not a size", name, hint) from None
    if not least <= size <= MOST_BYTES:
        allowed = f"{'more than 0' if least else '0'} and at most {MOST_BYTES >> 30:,} GiB"
        raise ProfileError(f"{name} = {shown(repr(text))} is out of range", name, f"{allowed}; {hint}")
    return int(size)


def shown(text: str) -> str:
    """A value as an error repeats it: its beginning."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def load_profile(file: str | None, **given: Any) -> Profile:
    """The profile of a TOML file, with what the command line gives (values that are not None) put over it.

    A scheduler that ends in .toml is a profile, for commands that take no other.
    Raises ProfileError for a missing file, an unknown key or an unknown scheduler; InsecureScheduler.
    """
    profile = Profile()
    if file is None and str(given.get("scheduler")).endswith(".toml"):
        file = given.pop("scheduler")
    if file is not None:
        try:
            values = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:  # ValueError: no TOML, or no text
            raise ProfileError(f"the profile cannot be read: {shown(str(error))}", shown(file)) from None
        if isinstance(values.get("timeouts"), dict):
            values["timeouts"] = timeouts_of(values["timeouts"], file)
        _check_settings(profile, values, file)
        beside = {key: str(Path(file).parent / values[key]) for key in TLS if values.get(key)}
        profile = replace(profile, **values | beside)
    profile = replace(profile, **{key: value for key, value in given.items() if value is not None})
    check_profile(profile)
    return profile


def _check_settings(profile: Profile, values: Mapping[str, Any], file: str) -> None:
    """Raises ProfileError for a setting that is none, or of another type than the profile's."""
    known = {found.name: type(getattr(profile, found.name)) for found in fields(Profile)}
    for key, value in values.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            meant = f"do you mean {near[0]}? " if near else ""
            raise ProfileError(f"{shown(key)} is no setting", file, f"{meant}settings: {', '.join(known)}")
        if type(value) is not known[key]:  # to Python, true is a whole number
            # Without the value: a slip may have put a password there.
            what = f"{key} is {TYPES.get(type(value), 'something else')} here"
            raise ProfileError(what, file, f"it must be {TYPES[known[key]]}")


def timeouts_of(given: Mapping[str, Any], where: str) -> Timeouts:
    """The time-outs with these settings over the usual ones. Raises ProfileError."""
    known = asdict(Timeouts())
    for name, value in given.items():
        if name not in known:
            raise ProfileError(f"[timeouts] {name} is not a setting", where, f"known settings: {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            raise ProfileError(f"[timeouts] {name} = {value!r}", where, "a number of seconds above 0")
    return Timeouts(**{name: float(value) for name, value in (known | dict(given)).items()})


def check_profile(profile: Profile) -> None:
    """Raises ProfileError when the scheduler is of no known form, or a number is out of range."""
    text = profile.scheduler
    if text.startswith("local:") and not 1 <= _count(text.removeprefix("local:")) <= MOST_WORKERS:
        raise ProfileError(f"--scheduler {shown(repr(text))}", "--scheduler", f"local:1 to local:{MOST_WORKERS:,}")
    if not (profile.local_workers or re.match(r"(tcp|tls)://", text) or is_file(text)):
        hint = "serial, local, local:N, tcp://HOST:PORT, tls://HOST:PORT or an existing scheduler file"
        raise ProfileError(f"--scheduler {shown(repr(text))} is none of the known forms", "--scheduler", hint)
    if not 1 <= profile.threads <= MOST_THREADS:
        what = f"threads = {shown(str(profile.threads))}"
        raise ProfileError(what, "threads", f"a whole number from 1 to {MOST_THREADS:,}")
    if fault := fault_of_dashboard(profile.dashboard):
        raise ProfileError(f"dashboard = {shown(repr(profile.dashboard))}: {fault}", "dashboard", DASHBOARD)
    profile.memory_bytes()
    if profile.cache:
        profile.cache_bytes()
    check_connection(profile)


def _count(digits: str) -> int:
    """0 for what is no count, or a monstrous one."""
    return int(digits) if re.fullmatch(r"[0-9]{1,9}", digits) else 0


def is_file(path: str) -> bool:
    """Whether a file is there; a name that the system does not take is none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def check_connection(profile: Profile) -> None:
    """Raises ProfileError for what is no address and when a PEM file is not there, InsecureScheduler when whoever
    listens in could take over."""
    if not profile.local_workers and "://" in profile.scheduler and (fault := fault_of_scheduler(profile.scheduler)):
        raise ProfileError(f"--scheduler {shown(repr(profile.scheduler))}: {fault}", "--scheduler", SCHEDULER)
    if profile.encrypted and any(getattr(profile, name) for name in TLS):
        for name in TLS:
            path = getattr(profile, name)
            if not is_file(path):
                what = f"{name} = {shown(repr(path))} is no file" if path else f"a tls:// scheduler needs {name}, too"
                hint = "PEM files: tls_ca, tls_cert and tls_key of the file that --profile names"
                raise ProfileError(what, name, hint)
    address = profile.address
    if address and not (profile.encrypted or profile.insecure or is_loopback(address)):
        raise InsecureScheduler(
            f"{address} is not on this machine and not encrypted: whoever reaches it or listens in can run code on it",
            "--scheduler",
            "use tls:// (`labelgrove certificates FOLDER` makes what it needs); in a network of your own --insecure or "
            "insecure = true in the profile",
        )
