"""What listens where a scheduler should: given up in time, named for what it is, and no half-made client is left."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import distributed
import pytest

from pipeline.commands.certificates import AUTHORITY, CERTIFICATE, KEY, certificates
from pipeline.connection import cluster, reaching
from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.connection.reaching import reach, told_of
from pipeline.connection.timeouts import Timeouts
from pipeline.connection.tls import security_of
from pipeline.errors import ClusterLost

SHORT = Timeouts(connect=0.5, no_workers=0.6, poll=0.1)
HTTP, FROZEN = "HTTP server", "it is frozen, or no scheduler"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "ASK_SECONDS", 0.2)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[str, str]]:
    """Certificates of one or the other cluster: the authority of one, a pair of one."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("one", "other"):
        certificates(folder / name)

    def named(authority: str, pair: str) -> dict[str, str]:
        found = {"tls_ca": folder / authority / AUTHORITY, "tls_cert": folder / pair / CERTIFICATE}
        return {name: str(path) for name, path in {**found, "tls_key": folder / pair / KEY}.items()}

    return named


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """The port of something that takes connections and says this; None: says nothing, ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                kept.append(taken)
                if answer is not None:
                    with suppress(OSError):  # it may be gone already
                        taken.sendall(answer)
                        taken.shutdown(socket.SHUT_WR)

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        for taken in kept:
            taken.close()


@contextmanager
def scheduler(protocol: str, files: dict[str, str] | None = None) -> Iterator[str]:
    """The address of a scheduler without workers, in this process."""
    security = None
    if files:
        given = {"tls_scheduler_cert": files["tls_cert"], "tls_scheduler_key": files["tls_key"]}
        client = {"tls_client_cert": files["tls_cert"], "tls_client_key": files["tls_key"]}
        security = distributed.Security(require_encryption=True, tls_ca_file=files["tls_ca"], **given, **client)
    options = {"n_workers": 0, "processes": False, "dashboard_address": "127.0.0.1:0", "security": security}
    with distributed.LocalCluster(protocol=f"{protocol}://", host="127.0.0.1", **options) as found:
        yield str(found.scheduler_address)


def lost(profile: Profile) -> ClusterLost:
    began = time.monotonic()
    with pytest.raises(ClusterLost) as caught, connected(profile):
        pass
    assert time.monotonic() - began < 5
    assert caught.value.exit_code == 6
    return caught.value


ANSWERS = {
    "nothing": (None, FROZEN),
    "closes at once": (b"", FROZEN),
    "HTTP unasked": (b"HTTP/1.1 400 Bad Request\r\n\r\n", HTTP),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", "another protocol"),
    "zeros": (bytes(64), "does not talk as a scheduler does"),
    "small garbage": ((16).to_bytes(8, "little") + b"x" * 16, "does not talk as a scheduler does"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_who_is_no_scheduler_is_given_up_and_named(kind: str) -> None:
    answer, said = ANSWERS[kind]
    with listening(answer) as port:
        error = lost(Profile(f"tcp://127.0.0.1:{port}", timeouts=SHORT))
    assert said in error.what
    assert "`dask scheduler` prints" in error.hint


@pytest.mark.parametrize("protocol", ["tcp", "tls"])
def test_a_web_server_is_named(protocol: str, tls: Callable[[str, str], dict[str, str]]) -> None:
    """It waits for the end of a line that a client of Dask never sends."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        files = tls("one", "one") if protocol == "tls" else {}
        error = lost(Profile(f"{protocol}://127.0.0.1:{server.server_port}", timeouts=SHORT, **files))
        server.shutdown()
    assert HTTP in error.what


def test_nobody_there_is_told_with_the_reason() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    assert "nobody listens there (Connection refused)" in lost(Profile(address, timeouts=SHORT)).what


def failing(errors: list[OSError | None], asked: list[str]) -> Callable[..., Any]:
    """A system's look-up of names that has these answers by turns, then the last for good."""

    def getaddrinfo(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        error = errors[min(len(asked), len(errors)) - 1]
        if error is not None:
            raise error
        return []

    return getaddrinfo


NONE = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
BUSY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def test_a_host_that_is_not_known_is_told_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not after all of `connect`, with which a scheduler that starts is waited for."""
    asked: list[str] = []
    monkeypatch.setattr(reaching, "NAME_PAUSE", 0.01)
    monkeypatch.setattr(socket, "getaddrinfo", failing([NONE], asked))
    error = lost(Profile("tcp://nosuch.example:8786", insecure=True, timeouts=Timeouts(connect=600)))
    assert "the name of the host, nosuch.example, is not known here (Name or service not known)" in error.what
    assert (error.hint, "start the cluster again" in error.hint) == (reaching.OWN_ADDRESS, False)
    assert asked == ["nosuch.example"] * reaching.NAME_TRIES


def test_a_moment_of_trouble_with_names_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(reaching, "NAME_PAUSE", 0.01)
    monkeypatch.setattr(socket, "getaddrinfo", failing([BUSY, None], asked))
    assert reaching._unknown_host("tls://scheduler.example:8786", 5) == ""
    assert len(asked) == 2


def test_a_system_that_does_not_tell_a_name_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30))
    began = time.monotonic()
    assert "no answer within" in reaching._unknown_host("tls://scheduler.example:8786", 0.2)
    over.set()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["nosuch..example", "x" * 70, "\u2603" * 70])
def test_a_name_that_no_host_can_have_is_none(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(reaching, "NAME_PAUSE", 0.01)
    assert "is not known here" in reaching._unknown_host(f"tls://{name}:8786", 5)


def test_who_connects_for_long_says_where_and_who_does_not_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with scheduler("tcp") as address:
        reaching._drop(reach(Profile(address), said.append))
        assert said == []
    monkeypatch.setattr(reaching, "SLOW_SECONDS", 0.05)
    with listening(None) as port, pytest.raises(ClusterLost):
        reach(Profile(f"tcp://127.0.0.1:{port}", timeouts=SHORT), said.append)
    assert said == [f"connecting to tcp://127.0.0.1:{port}, 0.5 s at most"]


def test_no_hint_names_another_command_than_was_typed() -> None:
    """Whoever submits, follows or cancels connects as whoever runs."""
    hints = [value for name, value in vars(reaching).items() if name.isupper() and isinstance(value, str)]
    assert len(hints) > 3
    assert [hint for hint in hints if "`labelgrove run`" in hint] == []


def test_an_error_without_words_is_told_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "what_answers", lambda *_: ("", ""))
    assert told_of(ConnectionResetError(), "tcp://127.0.0.1:1", 3)[0] == "ConnectionResetError"
    assert told_of(TimeoutError(), "tcp://127.0.0.1:1", 3)[0] == "it takes connections, and has said nothing for 3 s"


def test_who_finds_the_connection_closed_still_hears_why(tls: Callable[[str, str], dict[str, str]]) -> None:
    """The scheduler's refusal may come too late for whoever is writing."""
    with scheduler("tls", tls("one", "one")) as address:
        security = security_of(Profile(address, **tls("one", "other")))
        what, hint = told_of(ConnectionResetError("reset"), address, 3, security)
        assert "ours is refused there (tlsv1 alert unknown ca)" in what
        assert "labelgrove certificates" in hint
        assert told_of(OSError("why"), address, 3, security_of(Profile(address, **tls("one", "one"))))[0] == "why"


def test_certificates_and_protocols_that_do_not_fit(tls: Callable[[str, str], dict[str, str]]) -> None:
    timeouts = Timeouts(connect=3)
    with scheduler("tls", tls("one", "one")) as address:
        stranger = lost(Profile(address, timeouts=timeouts, **tls("other", "other")))
        assert "certificates do not fit: the scheduler's is refused here" in stranger.what
        mixed = lost(Profile(address, timeouts=timeouts, **tls("one", "other")))
        assert "certificates do not fit: ours is refused there (tlsv1 alert unknown ca)" in mixed.what
        for error in (stranger, mixed):
            assert "labelgrove certificates" in error.hint
            assert "start the cluster again" not in error.hint
        plain = address.replace("tls://", "tcp://")
        unencrypted = lost(Profile(plain, timeouts=timeouts))
        assert ("speaks TLS" in unencrypted.what, address in unencrypted.hint) == (True, True)
    with scheduler("tcp") as address:
        wanted = address.replace("tcp://", "tls://")
        error = lost(Profile(wanted, timeouts=timeouts, **tls("one", "one")))
        assert ("has no TLS" in error.what, address in error.hint) == (True, True)


@pytest.mark.parametrize(("error", "told"), [(ValueError, ClusterLost), (KeyboardInterrupt, KeyboardInterrupt)])
def test_no_half_made_client_is_left(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], told: type[BaseException]
) -> None:
    """Whatever ends its making: its finaliser has nothing to do, and its loop has ended."""
    dropped, drop, sync = [], reaching._drop, distributed.client.sync

    def seen(client: Any) -> None:
        dropped.append(client)
        drop(client)

    def fails_once(*asked: Any, **options: Any) -> Any:
        monkeypatch.setattr(distributed.client, "sync", sync)
        del asked, options
        raise error

    monkeypatch.setattr(reaching, "_drop", seen)
    monkeypatch.setattr(distributed.client, "sync", fails_once)
    with listening(b"") as port, pytest.raises(told):
        reach(Profile(f"tcp://127.0.0.1:{port}", timeouts=SHORT))
    (client,) = dropped
    assert client.status == "closed"
    assert not client._loop_runner.is_started()


def test_who_waits_for_a_worker_says_so_once() -> None:
    said: list[str] = []
    with scheduler("tcp") as address:
        profile = Profile(address, timeouts=SHORT)
        with pytest.raises(ClusterLost, match="no worker for"), connected(profile, said.append):
            pass
    assert said == [f"waiting for a worker of {address}, 0.6 s at most"]


def test_a_scheduler_that_falls_silent_while_a_worker_is_waited_for_is_given_up() -> None:
    class Silent:
        class scheduler:
            identity = None

        asked = 0

        def sync(self, *question: object, **options: object) -> dict[str, object]:
            del question, options
            self.asked += 1
            if self.asked > 1:
                raise TimeoutError
            return {"workers": {"tcp://127.0.0.1:1": {"status": "paused"}}}

    said: list[str] = []
    with pytest.raises(ClusterLost, match="does not answer"):
        cluster._wait_for_workers(Silent(), Profile("tcp://127.0.0.1:1", timeouts=SHORT), said.append)
    assert len(said) == 1
