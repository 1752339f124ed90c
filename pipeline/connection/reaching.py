"""A client of somebody else's scheduler, made in time or not at all; and what answers where none is.

Dask waits without limit for whatever takes a connection and then says nothing, and leaves a client behind whose making
has failed.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.connection.addresses import host_and_port
from pipeline.connection.profile import Profile
from pipeline.connection.tls import security_of
from pipeline.errors import ClusterLost
from tasks.errors import LabelgroveError

RESUME = "start the cluster again and type the same command: finished work is kept"
SAME_AUTHORITY = (
    "scheduler, workers and you need valid certificates of one authority: `labelgrove certificates FOLDER` makes them, "
    "--profile names yours"
)
OWN_ADDRESS = "name the address that `dask scheduler` prints, then type the same command again"
OR_FROZEN = f"restart the scheduler, or {OWN_ADDRESS}"
ASK_SECONDS = 1.0  # for each of three looks at what answers
DROP_SECONDS = 5.0
NAME_TRIES, NAME_PAUSE = 3, 1.0  # a moment of trouble with DNS is not the end; a name that is none stays one
SLOW_SECONDS = 2.0  # connecting that takes longer is told
FRAME_BYTES = 1 << 20  # a Dask scheduler begins with the size of its greeting, which is a few hundred


def reach(profile: Profile, tell: Callable[[str], object] = str) -> Any:
    """A client; `tell` hears where it connects to, from a thread, when that takes more than a moment.

    Raises ProfileError, ClusterLost when no scheduler answers within `connect`, and why.
    """
    seconds = profile.timeouts.connect
    waiting = threading.Timer(SLOW_SECONDS, tell, [f"connecting to {profile.scheduler}, {seconds:g} s at most"])
    waiting.daemon = True
    waiting.start()
    try:
        return _client(profile, profile.address, seconds)
    finally:
        waiting.cancel()


def _client(profile: Profile, address: str, seconds: float) -> Any:
    from distributed import Client
    from distributed.versions import VersionMismatchWarning

    security = security_of(profile)
    if unknown := _unknown_host(address, seconds):
        raise ClusterLost(f"no scheduler answers at {profile.scheduler}: {unknown}", profile.scheduler, OWN_ADDRESS)
    kind = _limited(Client)
    client = kind.__new__(kind)  # apart from its making, so that it can be closed when that fails
    try:
        with warnings.catch_warnings():  # of versions: what matters of them is compared once we are connected
            warnings.simplefilter("ignore", VersionMismatchWarning)
            client.__init__(address, security=security, timeout=seconds, set_as_default=False)
    except Exception as error:  # of something else than a scheduler, whatever it answers
        _drop(client)
        if isinstance(error, LabelgroveError):
            raise
        what, hint = told_of(error, address, seconds, security)
        raise ClusterLost(f"no scheduler answers at {profile.scheduler}: {what}", profile.scheduler, hint) from None
    except BaseException:
        _drop(client)
        raise
    return client


def _unknown_host(address: str, seconds: float) -> str:
    """Why the host of an address is none, "" when its name is known; a few attempts, and no longer than `seconds`."""
    host, port = host_and_port(address)
    until, why = time.monotonic() + seconds, ""
    for attempt in range(NAME_TRIES):
        if attempt:
            time.sleep(min(NAME_PAUSE, max(0.0, until - time.monotonic())))
        why = _looked_up(host, port, until - time.monotonic())
        if not why or time.monotonic() >= until:
            break
    return f"the name of the host, {host}, is not known here ({why})" if why else ""


def _looked_up(host: str, port: str, seconds: float) -> str:
    """What the system says of a name that it does not know, or too late: asked in a thread, since it has no limit."""
    found = [f"no answer within {max(0.0, seconds):.0f} s"]

    def look() -> None:
        try:
            socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            found.append("")
        except (OSError, UnicodeError) as error:  # the latter of a name that no host can have
            found.append(str(getattr(error, "strerror", None) or error))

    asked = threading.Thread(target=look, name="look-up", daemon=True)
    asked.start()
    asked.join(max(0.0, seconds))
    return found[-1]


def _limited(base: Any) -> Any:
    """Dask's client, with a limit on every attempt to connect, also when a connection is made anew."""
    import asyncio

    class Client(base):  # type: ignore[misc]  # its name is part of every client's
        async def _ensure_connected(self, timeout: float | None = None) -> None:
            await asyncio.wait_for(super()._ensure_connected(timeout), timeout or self._timeout)

    return Client


def _drop(client: Any) -> None:
    """Close what has not been made: at the end of the process its finaliser would wait, and print a traceback."""
    with contextlib.suppress(Exception):
        client.close(timeout=DROP_SECONDS)
    client.status = "closed"
    with contextlib.suppress(Exception):
        client._loop_runner.stop(DROP_SECONDS)


def told_of(error: BaseException, address: str, seconds: float, security: Any = None) -> tuple[str, str]:
    """Why a scheduler was not reached, and what to do."""
    refused = next(filter(None, (_refused_certificate(found) for found in causes(error))), "")
    answers, hint = ("", "") if refused else what_answers(address)
    if answers:
        return answers, hint
    if not refused and security is not None:
        refused = _refused_when_shown(address, security.get_connection_args("client")["ssl_context"])
    if refused:
        return f"the certificates do not fit: {refused}", SAME_AUTHORITY
    if not isinstance(error, OSError):
        return f"what listens there does not talk as a scheduler does ({type(error).__name__})", OWN_ADDRESS
    if isinstance(error, TimeoutError) and not str(error):
        return f"it takes connections, and has said nothing for {seconds:g} s", RESUME
    return str(error).strip() or type(error).__name__, RESUME


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "real_error", None) or error.__cause__ or error.__context__


def _refused_certificate(error: BaseException) -> str:
    """Whose certificate is refused by whom, and why; "" when the error is of another kind."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the scheduler's is refused here ({error.verify_message})"
    if isinstance(error, ssl.SSLError) and "ALERT" in str(error.reason):
        return f"ours is refused there ({str(error.reason).replace('_', ' ').lower()})"
    return ""


def _refused_when_shown(address: str, context: ssl.SSLContext) -> str:
    """The same, of a connection that only listens: who talks at once may find it closed before the reason is read."""
    host, port = host_and_port(address)
    try:
        with socket.create_connection((host, int(port)), ASK_SECONDS) as asked, context.wrap_socket(asked) as shown:
            shown.recv(1)
    except OSError as error:
        return _refused_certificate(error)
    return ""


def what_answers(address: str) -> tuple[str, str]:
    """What is wrong with what is at an address, and what to do; "" when it looks like a scheduler of that protocol."""
    encrypted, (host, port) = address.startswith("tls://"), host_and_port(address)
    place = (host, int(port))
    try:
        first = _greeting(place)
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        return f"nobody listens there ({why})", RESUME
    if first.startswith(b"HTTP/"):
        return "what listens there is an HTTP server, as a dashboard is, and no scheduler", OWN_ADDRESS
    if len(first) == 8 and int.from_bytes(first, "little") < FRAME_BYTES:
        hint = f"write tcp://{address[6:]}, or start the scheduler with certificates"
        return ("the scheduler there has no TLS", hint) if encrypted else ("", "")
    if first:
        return "what listens there speaks another protocol than a scheduler", OWN_ADDRESS
    if not _has_tls(place):
        return "what listens there takes connections and says nothing: it is frozen, or no scheduler", OR_FROZEN
    return ("", "") if encrypted else ("what listens there speaks TLS", f"write tls://{address[6:]}")


def _greeting(place: tuple[str, int]) -> bytes:
    """The first eight bytes that are said there, of a web server when it is asked; none of who is silent.

    Raises OSError when nobody listens.
    """
    with socket.create_connection(place, ASK_SECONDS) as asked:
        said = _read(asked)
        if not said:
            with contextlib.suppress(OSError):
                asked.sendall(b"GET / HTTP/1.0\r\n\r\n")
            said = _read(asked)
        return said


def _read(asked: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return asked.recv(8)
    return b""


def _has_tls(place: tuple[str, int]) -> bool:
    """Whether TLS is spoken there, with whatever certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(place, ASK_SECONDS) as asked, context.wrap_socket(asked):
            return True
    except ssl.SSLError as error:
        return bool(error.reason and "ALERT" in error.reason)
    except OSError:
        return False
