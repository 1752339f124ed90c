"""The compose cluster tried from nothing: python deploy/trial.py [--full] [--s3] [--keep] [FOLDER]

Copies what the image is made of into FOLDER (default: a temporary one), prepares, builds and starts the cluster there,
and runs the demo: in this machine's process, and from here over TLS with a worker killed and the scheduler restarted in
mid-run, and by the `submit` service. Digests must be equal; nothing may listen but on 127.0.0.1; whoever has no
certificate must be refused. Prints what it saw, with seconds; exit code 1 when anything is not as it should be.

Needs Docker with `docker compose` or docker-compose 1.29, and labelgrove's environment for the python that runs this.
LABELGROVE_BASE_IMAGE and LABELGROVE_BUILD_NETWORK are as in docker-compose.yml. As root, all but Docker runs as user
1000, who may read all files, in case the environment lies in root's home.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    *("pipeline", "tasks", "deploy", "pyproject.toml", "README.md", "requirements.lock", "requirements-dev.lock"),
    *("LICENSE", "docker-compose.yml", ".dockerignore"),
)
PROJECT, WORKERS = "labelgrove-trial", 2
PORTS = {"LABELGROVE_PORT": 18786, "LABELGROVE_DASHBOARD_PORT": 18787, "LABELGROVE_STORE_PORT": 19000}
SCHEDULER, STORE = f"127.0.0.1:{PORTS['LABELGROVE_PORT']}", f"127.0.0.1:{PORTS['LABELGROVE_STORE_PORT']}"
PASSED_ON = ("LABELGROVE_BASE_IMAGE", "LABELGROVE_BUILD_NETWORK", "LABELGROVE_TAG")
LONG = 1800.0  # seconds that a build or a run may take
TIED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
AS_USER = (
    *("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


class Unexpected(Exception):
    """Something is not as it should be."""


class Trial:
    """One cluster in one folder, and the lines of the table."""

    def __init__(self, folder: Path, full: bool) -> None:
        self.checkout, self.share, self.full = folder / "checkout", folder / "share", full
        self.user = 1000 if os.geteuid() == 0 else os.geteuid()
        self.lines: list[tuple[str, str, str]] = []
        with_plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
        self.compose_command = ["docker", "compose"] if with_plugin else ["docker-compose"]

    @property
    def drop(self) -> tuple[str, ...]:
        """What stands before a command that root shall not run."""
        return AS_USER if os.geteuid() == 0 else ()

    # ---- telling ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Time it, and keep what it says."""
        print(f"... {what}", file=sys.stderr, flush=True)
        said: list[str] = []
        started = time.monotonic()
        try:
            yield said
        except BaseException as error:
            self.lines.append((what, f"{time.monotonic() - started:.1f} s", f"FAILED: {str(error).strip()[-400:]}"))
            raise
        self.lines.append((what, f"{time.monotonic() - started:.1f} s", "; ".join(said) or "ok"))

    def table(self) -> str:
        wide = [max((len(line[column]) for line in self.lines), default=0) for column in (0, 1)]
        return "\n".join(f"{a:<{wide[0]}}  {b:>{wide[1]}}  {c}" for a, b, c in self.lines)

    # ---- commands -----------------------------------------------------------------------------------------------

    def call(self, *words: str | Path, code: int | None = 0, as_user: bool = False, **env: str) -> str:
        """What a command prints, both streams. Raises Unexpected for another exit code (None: any)."""
        drop = self.drop if as_user else ()
        done = subprocess.run(
            [*drop, *(str(word) for word in words)],
            cwd=self.checkout,
            env={**os.environ, **env, **({"HOME": str(self.share.parent)} if drop else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG,
            check=False,
        )
        if code is not None and done.returncode != code:
            what = " ".join(str(word) for word in words)
            raise Unexpected(f"{what}: exit code {done.returncode}, not {code}:\n{done.stdout[-3000:]}")
        return str(done.stdout)

    def compose(self, *words: str, code: int | None = 0) -> str:
        return self.call(*self.compose_command, *words, code=code)

    def labelgrove(self, *words: str | Path, code: int | None = 0) -> str:
        """The command of the copied checkout, on this machine."""
        program = "from pipeline.cli import main; main()"
        return self.call(
            sys.executable, "-c", program, *words, code=code, as_user=True, PYTHONPATH=str(self.checkout), **TIED
        )

    # ---- the cluster --------------------------------------------------------------------------------------------

    def copy(self) -> None:
        """What the image is made of, so that nobody edits it meanwhile."""
        self.checkout.mkdir(parents=True)
        for name in COPIED:
            source, target = ROOT / name, self.checkout / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("certificates"))  # with compiled kernels
            else:
                shutil.copy(source, target)
        self.share.mkdir()
        if os.geteuid() == 0:
            self.checkout.parent.chmod(0o755)
            for path in (self.checkout, *self.checkout.rglob("*"), self.share, self.checkout.parent):
                os.chown(path, self.user, self.user)

    def prepare(self) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.call("deploy/prepare", self.share, as_user=True, PATH=path, PYTHONPATH=str(self.checkout))
        more = {"COMPOSE_PROJECT_NAME": PROJECT, **PORTS}
        more |= {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        with open(self.checkout / ".env", "a", encoding="utf-8") as file:
            file.write("".join(f"{name}={value}\n" for name, value in more.items()))
        profile = self.checkout / "deploy/certificates/profile.toml"
        profile.write_text(profile.read_text().replace(":8786", f":{PORTS['LABELGROVE_PORT']}"))

    @property
    def profile(self) -> Path:
        return self.checkout / "deploy/certificates/profile.toml"

    def containers(self, service: str) -> list[str]:
        """Ids of the containers of a service, in the order of their names."""
        return sorted(self.compose("ps", "--quiet", service).split())

    def inspect(self, container: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.call("docker", "inspect", container))[0]
        return found

    def until_healthy(self, *services: str, seconds: float = 300.0) -> None:
        """Every container of these services runs and its health check has succeeded."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            states = [self.inspect(found)["State"] for name in services for found in self.containers(name)]
            health = [state.get("Health", {}).get("Status") if state["Running"] else "gone" for state in states]
            if health and set(health) == {"healthy"}:
                return
            time.sleep(1.0)
        raise Unexpected(f"{services} are {health} after {seconds:.0f} s:\n{self.compose('logs', code=None)[-3000:]}")


def check_containers(trial: Trial) -> str:
    """Non-root, limited, restarted, published on 127.0.0.1 alone. Raises Unexpected."""
    seen = [trial.inspect(found) for name in ("scheduler", "worker") for found in trial.containers(name)]
    for one in seen:
        host, ports = one["HostConfig"], one["NetworkSettings"]["Ports"]
        published = {entry["HostIp"] for entries in ports.values() for entry in entries or ()}
        if published - {"127.0.0.1"}:
            raise Unexpected(f"published on {published}")
        wrong = [
            name
            for name, right in {
                "user": one["Config"]["User"].split(":")[0] == str(trial.user) != "0",
                "memory": host["Memory"] > 0,
                "restart": host["RestartPolicy"]["Name"] == "unless-stopped",
                "capabilities": "ALL" in host["CapDrop"],
                "network": host["NetworkMode"] != "host",
            }.items()
            if not right
        ]
        if wrong:
            raise Unexpected(f"{one['Name']}: {', '.join(wrong)}")
    uids = trial.call("docker", "exec", trial.containers("worker")[0], "id", "-u").strip()
    limits = sorted({one["HostConfig"]["Memory"] >> 20 for one in seen})
    return f"uid {uids}, limits {limits} MiB, restart unless-stopped, published on 127.0.0.1 alone"


def listening(ports: Sequence[int]) -> dict[int, set[str]]:
    """Addresses, as the kernel writes them, on which this machine listens to each port."""
    found: dict[int, set[str]] = {port: set() for port in ports}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(table).read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                address, _, port = local.partition(":")
                if state == "0A" and int(port, 16) in found:
                    found[int(port, 16)].add(address)
    return found


def check_listening(*names: str) -> str:
    """Raises Unexpected unless each of these ports listens on 127.0.0.1 alone."""
    ports = [PORTS[name] for name in names]
    for port, addresses in listening(ports).items():
        if addresses != {"0100007F"}:
            raise Unexpected(f"port {port} listens on {addresses or 'nothing'}")
    return ", ".join(f"127.0.0.1:{port}" for port in ports)


def check_refused(trial: Trial) -> str:
    """Plain TCP, and TLS without a certificate, come to nothing. Raises Unexpected."""
    code = (
        "import sys; from distributed import Client\n"
        "try:\n    Client(sys.argv[1], timeout=5)\nexcept Exception as error:\n    sys.exit(3)"
    )
    trial.call(sys.executable, "-c", code, f"tcp://{SCHEDULER}", code=3)
    (trial.share / "plain.toml").write_text("[timeouts]\nconnect = 5\n")
    trial.labelgrove(
        *("run", trial.share / "demo/demo.toml", "--runs", trial.share / "none"),
        *("--profile", trial.share / "plain.toml", "--scheduler", f"tcp://{SCHEDULER}"),
        code=6,
    )
    context = ssl.create_default_context(cafile=str(trial.profile.parent / "ca.pem"))
    host, port = SCHEDULER.split(":")
    try:
        with (
            socket.create_connection((host, int(port)), 10) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            secure.settimeout(10)
            secure.sendall(b"\0" * 8)
            answer = secure.recv(1)
    except ssl.SSLError as error:
        return f"tcp:// is refused; TLS without a certificate: {error.reason}"
    raise Unexpected(f"TLS without a certificate was answered: {answer!r}")


def steps_of(run: Path) -> dict[str, str]:
    """Digest of the content of every step of a finished run."""
    manifest = json.loads((run / "manifest.json").read_text())
    return {name: step["digest"] for name, step in manifest["steps"].items()}


def check_equal(trial: Trial, *runs: str) -> str:
    """Raises Unexpected unless these runs have the digests of the local one."""
    expected = steps_of(trial.share / "demo/runs/characters")
    for name in runs:
        found = steps_of(trial.share / name / "characters")
        if found != expected:
            raise Unexpected(f"{name}: {[step for step in expected if found.get(step) != expected[step]]} differ")
    return f"{len(expected)} steps equal in {len(runs) + 1} runs"


def begun(run: Path) -> list[str]:
    """Steps that a run has begun, in order."""
    with contextlib.suppress(FileNotFoundError):
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines() if line.endswith("}")]
        return [event["step"] for event in events if event["event"] == "step"]
    return []


def until(what: str, true: Callable[[], bool], driver: subprocess.Popen[str], seconds: float = LONG) -> None:
    limit = time.monotonic() + seconds
    while not true():
        if driver.poll() is not None or time.monotonic() > limit:
            raise Unexpected(f"no {what}; the driver has {driver.poll()}")
        time.sleep(0.1)


def run_with_faults(trial: Trial, said: list[str]) -> None:
    """A driver on this machine; a worker is killed, then the scheduler restarted, then the run continued."""
    demo, run = trial.share / "demo/demo.toml", trial.share / "from-host/characters"
    words = ["run", str(demo), "--runs", str(trial.share / "from-host"), "--profile", str(trial.profile)]
    program = [*trial.drop, sys.executable, "-c", "from pipeline.cli import main; main()", *words]
    env = {**os.environ, **TIED, "PYTHONPATH": str(trial.checkout), "HOME": str(trial.share.parent)}
    with open(trial.share.parent / "driver.log", "w", encoding="utf-8") as log:
        driver = subprocess.Popen(program, cwd=trial.share, env=env, stdout=log, stderr=log, text=True)
        try:
            until("training", lambda: any(name.startswith("train_") for name in begun(run)), driver)
            victim = trial.containers("worker")[0]
            kill = "import os; os.kill(-1, 9)"  # all of the container but its init, which ends with them
            trial.call("docker", "exec", victim, "python", "-c", kill, code=None)
            at = len(begun(run))
            said.append(f"worker killed in {begun(run)[-1]}")
            until("step after the kill", lambda: len(begun(run)) > at, driver)
            said.append(f"scheduler restarted in {begun(run)[-1]}")
            trial.call("docker", "restart", "--time", "1", *trial.containers("scheduler"))
            code = driver.wait(LONG)
        finally:
            if driver.poll() is None:
                driver.kill()
                driver.wait()
    if code != 6:
        raise Unexpected(f"the run ended with {code}, not 6: {(trial.share.parent / 'driver.log').read_text()[-2000:]}")
    trial.until_healthy("scheduler", "worker")
    counts = [trial.inspect(found)["RestartCount"] for found in trial.containers("worker")]
    before = len(begun(run))
    trial.labelgrove(*words)
    said += [
        f"exit 6; workers were restarted {counts} times",
        f"run again: {len(begun(run)) - before} steps to do, exit 0",
    ]


def perform(trial: Trial, s3: bool) -> None:
    """Everything, in order. Raises Unexpected."""
    with trial.step("deploy/prepare"):
        trial.prepare()
    with trial.step("image built") as said:
        trial.compose("build", "scheduler")
        image = trial.call("docker", "image", "inspect", f"labelgrove:{os.environ.get('LABELGROVE_TAG', 'latest')}")
        said.append(f"{json.loads(image)[0]['Size'] / 1e6:.0f} MB")
    with trial.step(f"cluster up and healthy, {WORKERS} workers"):
        trial.compose("up", "--detach", "--scale", f"worker={WORKERS}")
        trial.until_healthy("scheduler", "worker")
    with trial.step("containers") as said:
        said.append(check_containers(trial))
    with trial.step("listening") as said:
        said.append(check_listening("LABELGROVE_PORT", "LABELGROVE_DASHBOARD_PORT"))
    with trial.step("demo in one process here"):
        size = () if trial.full else ("--small",)
        trial.labelgrove("demo", trial.share / "demo", "--scheduler", "serial", *size)
    with trial.step("strangers") as said:
        said.append(check_refused(trial))
    with trial.step("the same from here over TLS, with faults") as said:
        run_with_faults(trial, said)
    with trial.step("the same by the submit service"):
        service = ("run", "--rm", "submit", str(trial.share / "demo/demo.toml"))
        trial.compose(*service, "--runs", str(trial.share / "from-inside"))
    with trial.step("digests") as said:
        said.append(check_equal(trial, "from-host", "from-inside"))
    if s3:
        with trial.step("store up and healthy") as said:
            trial.compose("--profile", "s3", "up", "--detach", "--build", "store")
            trial.until_healthy("store")
            said.append(check_listening("LABELGROVE_STORE_PORT"))


def main() -> int:
    """The exit code."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", nargs="?", type=Path, help="a new folder, kept; default: a temporary one")
    asked.add_argument("--full", action="store_true", help="the demo of 1,246 classes, not of 60")
    asked.add_argument("--s3", action="store_true", help="the object store, too")
    asked.add_argument("--keep", action="store_true", help="leave the cluster running")
    options = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by what is running, so that the cluster is taken down
    folder = options.folder.absolute() if options.folder else Path(tempfile.mkdtemp(prefix="labelgrove-trial-"))
    trial, failed = Trial(folder, options.full), False
    trial.copy()
    try:
        perform(trial, options.s3)
    except Unexpected as error:
        failed = True
        print(error, file=sys.stderr)
    finally:
        if not options.keep:
            with trial.step("cluster down"):
                trial.compose(
                    "--profile", "s3", "--profile", "submit", "down", "--volumes", "--timeout", "5", code=None
                )
        print(trial.table())
        if not (options.keep or options.folder):
            shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
