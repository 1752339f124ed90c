"""The commands of docker-compose.yml as plain processes over TLS: scheduler, workers, health checks, drivers."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import distributed
import pytest
import yaml

from pipeline.commands.certificates import certificates
from pipeline.connection.dask_settings import DASK_CONFIG
from tests.deploy.compose import ROOT, WRITTEN, services
from tests.deploy.started import CONFIG, free_port, own_environment, replaced
from tests.systems.conftest import make_dataset
from tests.systems.digests import digests_of
from tests.systems.harness import WAIT, command, labelgrove, wait_until

WORKERS = 2


@dataclass
class Running:
    """The services, the folder of the certificates, and on which ports they listen."""

    services: dict[str, dict[str, Any]]
    folder: Path
    port: int
    dashboard: int
    processes: list[subprocess.Popen[bytes]]

    def words(self, text: list[str], number: int = 0) -> list[str]:
        """A command of the file for this machine: other ports, this Python's dask, this folder for scratch."""
        changes = {
            "scheduler:8786": f"127.0.0.1:{self.port}",
            "8786": str(self.port),
            "127.0.0.1:8790": f"127.0.0.1:{self.dashboard + 1 + number}",
            "127.0.0.1:8787": f"127.0.0.1:{self.dashboard}",
            ":8787": f"127.0.0.1:{self.dashboard}",
            "/tmp/dask": str(self.folder / f"scratch-{number}"),
            "$$": "$",
        }
        return replaced(text, changes)

    def start(self, name: str, number: int = 0) -> None:
        service = self.services[name]
        words = self.words(service["command"], number)
        more = ["--host", "127.0.0.1"]  # in a container it is alone
        words = [*words, *more] if words[0] == "dask" else [*words[:-1], f"{words[-1]} {' '.join(more)}"]
        with open(self.folder / f"{name}-{number}.log", "wb") as log:
            env = self.environment(name, HOSTNAME=f"container-{number}")
            self.processes.append(subprocess.Popen(words, cwd=self.folder, env=env, stdout=log, stderr=log))

    def environment(self, name: str, **more: str) -> dict[str, str]:
        """Of a service: its own, the settings that the image has in /etc/dask, this Python first on the path."""
        given = {key: value for key, value in self.services[name]["environment"].items() if value is not None}
        given = {key: value.replace("/certificates", str(self.folder / "c")) for key, value in given.items()}
        return own_environment(**given, **more)

    def healthy(self, name: str, number: int = 0) -> bool:
        """What its health check says."""
        _, *words = self.words(self.services[name]["healthcheck"]["test"], number)
        done = subprocess.run(words, env=self.environment(name), capture_output=True, timeout=WAIT, check=False)
        return done.returncode == 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("compose")
    certificates(folder / "c")
    found = Running(services({**WRITTEN, "LABELGROVE_WORKER_MEMORY": "1GiB"}), folder, free_port(), free_port(), [])
    try:
        found.start("scheduler")
        assert not found.healthy("worker")
        wait_until(lambda: found.healthy("scheduler"), "the scheduler's health check")
        for number in range(WORKERS):
            found.start("worker", number)
        for number in range(WORKERS):
            wait_until(lambda number=number: found.healthy("worker", number), f"the health check of worker {number}")
        yield found
    finally:
        for process in reversed(found.processes):
            process.terminate()
        for process in found.processes:
            process.wait(WAIT)


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[distributed.Client]:
    names = {"tls_ca_file": "ca.pem", "tls_client_cert": "cert.pem", "tls_client_key": "key.pem"}
    files = {option: str(running.folder / "c" / name) for option, name in names.items()}
    security = distributed.Security(require_encryption=True, **files)
    with distributed.Client(f"tls://127.0.0.1:{running.port}", security=security, set_as_default=False) as found:
        found.wait_for_workers(WORKERS, timeout=WAIT)
        yield found


def test_workers_are_named_after_their_containers_and_hold_to_the_settings(client: distributed.Client) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    assert sorted(info["name"] for info in workers.values()) == ["container-0", "container-1"]
    assert {info["memory_limit"] for info in workers.values()} == {1 << 30}
    assert {info["nthreads"] for info in workers.values()} == {1}
    assert all(address.startswith("tls://") for address in workers)
    wanted = yaml.safe_load((ROOT / "deploy/dask.yaml").read_text())["distributed"]

    def setting(name: str) -> Any:
        return dask.config.get(f"distributed.{name}")

    assert client.run_on_scheduler(setting, "scheduler.allowed-failures") == wanted["scheduler"]["allowed-failures"]
    for found in client.run(setting, "worker.memory").values():
        assert {key: found[key] for key in wanted["worker"]["memory"]} == wanted["worker"]["memory"]
    before: dict[str, int] = DASK_CONFIG["distributed.nanny.pre-spawn-environ"]  # type: ignore[assignment]
    for found in client.run(lambda: dict(os.environ)).values():
        assert {name: found[name] for name in before} == {name: str(value) for name, value in before.items()}


def test_the_page_of_our_own_is_there(running: Running, client: distributed.Client) -> None:
    assert client.scheduler is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{running.dashboard}/labelgrove", timeout=60) as answer:
        assert answer.status == 200


def test_strangers_are_refused(running: Running) -> None:
    with pytest.raises(OSError):
        distributed.Client(f"tcp://127.0.0.1:{running.port}", timeout=2, set_as_default=False)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answer_without_a_certificate(running)


def answer_without_a_certificate(running: Running) -> bytes:
    """What the scheduler says to a client that has the authority and no certificate of its own."""
    context = ssl.create_default_context(cafile=running.folder / "c/ca.pem")
    with (
        socket.create_connection(("127.0.0.1", running.port), 20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.settimeout(20)
        return secure.recv(1)  # the server asks for a certificate after its own part of the handshake


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_from_outside_and_one_of_the_submit_service_equal_the_serial_one(
    running: Running, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(name="small", data=make_dataset(tmp_path).path))
    profile = running.folder / "c/profile.toml"
    profile.write_text(profile.read_text().replace("8786", str(running.port)))
    serial = labelgrove("run", config, "--scheduler", "serial")
    outside = labelgrove("run", config, "--profile", profile, "--runs", tmp_path / "outside")
    shell, flag, script, name = running.services["submit"]["entrypoint"]
    program = " ".join(f"'{word}'" for word in command())  # this checkout's, in place of the one in the image
    (script,) = running.words([script.replace("exec labelgrove", f"exec {program}")])
    inside = subprocess.run(
        [shell, flag, script, name, str(config), "--runs", str(tmp_path / "inside")],
        env=running.environment("submit"),
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert (serial.code, outside.code, inside.returncode) == (0, 0, 0), (serial.err, outside.err, inside.stderr)
    wanted = digests_of(tmp_path / "runs/small")
    assert wanted
    assert digests_of(tmp_path / "outside/small") == digests_of(tmp_path / "inside/small") == wanted
