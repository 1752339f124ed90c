"""What listens while a command works on this machine: nothing that another machine could reach."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.faults.stage import RUN, small_config
from tests.systems.harness import Started, run_here, started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config, its dataset, and a finished run of it."""
    place = tmp_path_factory.mktemp("sockets")
    run_here(small_config(place))
    return place


def listening(command: Started) -> set[tuple[str, int]]:
    """(address, port) of every TCP or UDP socket of the command's processes that waits for others."""
    found = set()
    try:
        root = psutil.Process(command.process.pid)
        for process in [root, *root.children(recursive=True)]:
            for one in process.net_connections("inet"):
                waits = one.status == psutil.CONN_LISTEN or (one.status == psutil.CONN_NONE and not one.raddr)
                if waits and one.laddr:
                    found.add((one.laddr.ip, one.laddr.port))
    except psutil.Error:  # a process has just ended
        return found
    return found


def all_listening(command: Started) -> set[tuple[str, int]]:
    """Of its whole life."""
    seen: set[tuple[str, int]] = set()

    def ended() -> bool:
        seen.update(listening(command))
        return command.process.poll() is not None

    command.until(ended, "its end")
    return seen


def elsewhere(addresses: set[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(one for one in addresses if not ipaddress.ip_address(one[0]).is_loopback)


COMMANDS: dict[str, Callable[[Path, Path], list[str | Path]]] = {
    "run, serial": lambda made, own: ["run", made / "config.toml", "--runs", own, "--scheduler", "serial"],
    "run, local": lambda made, own: ["run", made / "config.toml", "--runs", own, "--scheduler", "local:2"],
    "predict, local": lambda made, own: [
        *("predict", made / "runs" / RUN / "models" / "ovr", made / "d.zarr"),
        *("-o", own / "p.parquet", "--scheduler", "local:1"),
    ],
    "demo": lambda made, own: ["demo", own / "demo", "--small", "--scheduler", "local:1"],  # noqa: ARG005
}


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.slow] if name == "demo" else []) for name in COMMANDS]
)
def test_nothing_listens_beyond_this_machine(folder: Path, tmp_path: Path, command: str) -> None:
    with started(*COMMANDS[command](folder, tmp_path), log=tmp_path / "log") as running:
        found = all_listening(running)
        assert running.wait() == 0, running.text
    assert elsewhere(found) == []
    # a scheduler, its dashboard, a nanny and a worker each listen, once there are workers at all
    assert (len(found) >= 4) == ("serial" not in command)


def test_a_socket_that_others_can_reach_is_seen(tmp_path: Path) -> None:
    """The check itself: of a process that listens everywhere, and of one of the loopback of IPv6."""
    program = (
        "import socket, time; a = socket.create_server(('0.0.0.0', 0)); "
        "b = socket.create_server(('::1', 0), family=socket.AF_INET6); time.sleep(60)"
    )
    with started(log=tmp_path / "log", patch=program) as running:
        running.until(lambda: len(listening(running)) == 2, "two sockets")
        found = listening(running)
        assert [address for address, _ in elsewhere(found)] == ["0.0.0.0"]
