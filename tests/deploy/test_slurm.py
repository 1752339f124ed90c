"""deploy/slurm: options that sbatch has, and the scripts run whole, with Slurm's commands starting processes here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.commands.certificates import certificates
from pipeline.connection.profile import load_profile
from tests.deploy.compose import ROOT
from tests.deploy.slurm_commands import asked, write_commands
from tests.deploy.started import CONFIG, own_environment, processes
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import WAIT, events_of, labelgrove, run_here, wait_until

FOLDER = ROOT / "deploy" / "slurm"
# Options of sbatch(1) that a cluster of ours may want; a typo is none of them.
LONG = {
    "account", "array", "begin", "chdir", "comment", "constraint", "cpus-per-task", "dependency", "error", "exclude",
    "exclusive", "export", "gres", "hint", "job-name", "licenses", "mail-type", "mail-user", "mem", "mem-per-cpu",
    "nodelist", "nodes", "no-requeue", "ntasks", "ntasks-per-node", "open-mode", "output", "partition", "qos",
    "requeue", "reservation", "signal", "time", "time-min", "tmp", "wckey",
}  # fmt: skip
SHORT = set("AabCcDdeGHIiJkLMmNnOopQqSstWwx")


def wrong_directives(script: str) -> list[str]:
    """Lines of #SBATCH whose option sbatch does not know, or that stand after the first command: these are ignored."""
    found, begun = [], False
    for line in script.splitlines():
        if not line.startswith("#SBATCH"):
            begun = begun or bool(line.strip() and not line.startswith("#"))
            continue
        option = line.split()[1]
        known = option[2:].partition("=")[0] in LONG if option.startswith("--") else option[1:2] in SHORT
        found += [] if known and not begun else [line]
    return found


def test_every_option_is_one_of_sbatch() -> None:
    script = (FOLDER / "run.sbatch").read_text()
    assert script.count("#SBATCH") > 5
    assert wrong_directives(script) == []
    typo = script.replace("#SBATCH --requeue", "#SBATCH --requeu")
    assert wrong_directives(typo) == ["#SBATCH --requeu"]
    assert wrong_directives(f"{script}\n#SBATCH --time=1") == ["#SBATCH --time=1"]


def minutes(text: str) -> int:
    hours, minute, _ = (int(part) for part in text.split(":"))
    return 60 * hours + minute


def lifetime_by(script: str, **environment: str) -> int:
    """Seconds that the script gives its workers in such an environment."""
    lines = [line for line in script.splitlines() if line.startswith(("left=", "WORKER_LIFETIME="))]
    words = ["bash", "-c", "\n".join([*lines, "echo $WORKER_LIFETIME"])]
    environment |= {"PATH": os.environ["PATH"]}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.strip().removesuffix("s"))


def test_workers_leave_before_their_time_and_the_driver_before_them() -> None:
    script = (FOLDER / "run.sbatch").read_text()
    walltime = minutes(re.findall(r"--time=(\S+)", script)[0])
    warned = int(re.findall(r"--signal=B:TERM@(\d+)", script)[0])
    assert 60 * walltime - warned < lifetime_by(script) < 60 * walltime
    in_two_hours = str(int(time.time()) + 7200)
    assert 7200 - warned < lifetime_by(script, SLURM_JOB_END_TIME=in_two_hours) < 7200
    assert lifetime_by(script, SLURM_JOB_END_TIME=in_two_hours, WORKER_LIFETIME="90s") == 90
    assert lifetime_by(script, SLURM_JOB_END_TIME="1") == 120  # a clock that is wrong: no worker of no time
    memory = int(re.findall(r"--mem-per-cpu=(\d+)G", script)[0])
    assert int(re.findall(r"WORKER_MEMORY:-(\d+)GiB", script)[0]) < memory


def test_scripts_are_sound() -> None:
    for path in FOLDER.glob("*.sbatch"):
        assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
    profile = (FOLDER / "profile.toml").read_text()
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.iterdir() if path.suffix != ".md" and path.name not in text] == []
    assert "/shared/labelgrove/" in profile


@pytest.fixture
def home(tmp_path: Path, dataset: Path) -> Path:
    """The folder that all nodes see: certificates, settings, the files of deploy/slurm, a config."""
    folder = tmp_path / "shared"
    certificates(folder / "tls")
    shutil.copy(ROOT / "deploy" / "dask.yaml", folder)
    for path in FOLDER.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    write_commands(tmp_path / "bin")
    (folder / "c.toml").write_text(CONFIG.format(name="small", data=dataset))
    return folder


def environment_of(home: Path, **more: str) -> dict[str, str]:
    own = own_environment(LABELGROVE_HOME=str(home), DASK_CONFIG=str(home / "dask.yaml"), TMPDIR=str(home.parent))
    return {**own, "PATH": f"{home.parent / 'bin'}{os.pathsep}{own['PATH']}", **more}


def job_environment(home: Path, number: int) -> dict[str, str]:
    """As sbatch gives it to the script; two tasks, on the loopback."""
    slurm = {"SLURM_JOB_ID": str(number), "SLURM_NTASKS": "2", "SLURM_SUBMIT_DIR": str(home), "INTERFACE": "lo"}
    return environment_of(home, WORKER_MEMORY="1GiB", **slurm)


@pytest.mark.slow
def test_a_job_that_runs_out_of_time_is_queued_again_and_continues(home: Path, tmp_path: Path) -> None:
    run, script = home / "runs" / "small", ["bash", str(home / "run.sbatch"), str(home / "c.toml")]
    with processes(tmp_path) as started:
        first = started.start("first", script, job_environment(home, 1))
        wait_until(
            lambda: any(event["event"] == "done" for event in events_of(run)) or first.poll() is not None, "a step"
        )
        assert (home / "scheduler-1.json").exists(), started.said("first")
        first.send_signal(signal.SIGTERM)
        assert first.wait(WAIT) == 130, started.said("first")
        assert "scontrol requeue 1" in asked(tmp_path / "bin")
        assert not (home / "scheduler-1.json").exists()
        again = started.start("again", script, job_environment(home, 2))
        assert again.wait(WAIT) == 0, started.said("again")
        assert "  model " in started.said("again")
        assert len(asked(tmp_path / "bin")) == 3  # two srun, one scontrol
    done = [event["step"] for event in events_of(run) if event["event"] == "done"]
    assert sorted(done) == sorted(set(done))
    assert_same(digests_of(run_here(home / "c.toml", runs=tmp_path / "serial")), run)


@pytest.mark.slow
def test_a_job_that_is_refused_ends_with_the_code_of_run(home: Path, tmp_path: Path) -> None:
    (home / "c.toml").write_text("name = 1")
    with processes(tmp_path) as started:
        job = started.start("job", ["bash", str(home / "run.sbatch"), str(home / "c.toml")], job_environment(home, 3))
        assert job.wait(WAIT) == 2, started.said("job")
        assert "ConfigError" in started.said("job")
        assert not [line for line in asked(tmp_path / "bin") if line.startswith("scontrol")]


def jobqueue(home: Path, *more: str) -> list[str]:
    own = ["--interface", "lo", "--scratch", str(home.parent), "--dashboard", "127.0.0.1:0", "--memory", "1GiB"]
    return [sys.executable, str(home / "jobqueue.py"), str(home), *own, *more]


def test_the_job_of_jobqueue_is_sound(home: Path, tmp_path: Path) -> None:
    words = jobqueue(home, "--print-job", "--walltime", "02:00:00", "--partition", "long", "--prologue", "true")
    done = subprocess.run(words, env=environment_of(home), capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    script = done.stdout
    assert wrong_directives(script) == []
    (tmp_path / "job.sh").write_text(script)
    assert subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=False).returncode == 0
    directives = [line.split(maxsplit=1)[1] for line in script.splitlines() if line.startswith("#SBATCH")]
    assert {"-t 02:00:00", "-p long", "--mem=4G", "--cpus-per-task=1"} <= set(directives)
    (worker,) = (shlex.split(line) for line in script.splitlines() if "distributed.cli.dask_worker" in line)
    options = dict(pairwise(worker))
    assert options["--lifetime"] == "114m"
    assert options["--nthreads"] == "1"
    assert options["--memory-limit"] == "1.00GiB"
    assert options["--tls-ca-file"] == str(home / "tls" / "ca.pem")
    assert worker[3].startswith("tls://127.0.0.1:")
    assert "true" in script.splitlines()
    assert f"export DASK_CONFIG={home / 'dask.yaml'}" in script


@pytest.mark.slow
def test_workers_of_jobqueue_do_the_run(home: Path, tmp_path: Path) -> None:
    profile = home / "profile.toml"
    profile.write_text(profile.read_text().replace("/shared/labelgrove", str(home)))
    with processes(tmp_path) as started:
        queue = started.start("queue", jobqueue(home, "--jobs", "2"), environment_of(home))
        wait_until(lambda: (home / "scheduler.json").exists() or queue.poll() is not None, "the scheduler")
        assert queue.poll() is None, started.said("queue")
        assert load_profile(str(profile)).encrypted
        ended = labelgrove("run", home / "c.toml", "--profile", profile)
        assert ended.code == 0, ended.err
        queue.send_signal(signal.SIGTERM)
        assert queue.wait(WAIT) == 0, started.said("queue")
    given = [line.split()[0] for line in asked(tmp_path / "bin")]
    assert given.count("sbatch") >= 2
    assert "scancel" in given
    assert_same(digests_of(run_here(home / "c.toml", runs=tmp_path / "serial")), home / "runs" / "small")
