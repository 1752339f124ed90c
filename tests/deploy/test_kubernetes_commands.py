"""The commands of deploy/kubernetes as plain processes over TLS: scheduler, workers, submit, job, and probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.certificates import certificates
from tests.deploy.started import CONFIG, Processes, answers, free_port, own_environment, processes, replaced
from tests.deploy.test_kubernetes import documents, pods
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import WAIT, run_here, wait_until

WORKERS = 2


def container(name: str, part: str) -> dict[str, Any]:
    """The one container of a part of a file."""
    (found,) = (spec["containers"][0] for document in documents(name) for pod, spec in pods(document) if pod == part)
    return dict(found)


class Cluster:
    """What the files start, on free ports of this machine; /data, /tls, /scratch and the profile are folders here."""

    def __init__(self, started: Processes, data: Path) -> None:
        self.started, self.folder, self.port = started, started.folder, free_port()
        profile = documents("settings.yaml")[1]["data"]["profile.toml"]
        (self.folder / "profile.toml").write_text(profile)
        certificates(self.folder / "tls")
        self.data = data

    def changes(self, dashboard: int, name: str) -> dict[str, str]:
        return {
            "tls://labelgrove-scheduler:8786": f"tls://127.0.0.1:{self.port}",
            "tls://flowers-scheduler:8786": f"tls://127.0.0.1:{self.port}",
            "--port=8786": f"--port={self.port}",
            "=:8787": f"=127.0.0.1:{dashboard}",
            "=:8788": f"=127.0.0.1:{dashboard}",
            "$(DASK_WORKER_NAME)": name,
            "=/scratch": f"={self.folder / name}",
            "/data": str(self.data),
            "/etc/labelgrove/profile.toml": str(self.folder / "profile.toml"),
            "=3GiB": "=1GiB",
        }

    def environment(self) -> dict[str, str]:
        settings = documents("settings.yaml")[0]["data"]
        here = {key: value.replace("/tls/", f"{self.folder / 'tls'}/") for key, value in settings.items()}
        return own_environment(**here)

    def start(self, file: str, part: str, name: str) -> None:
        """A part that stays, until all of its probes are content."""
        found, port = container(file, part), free_port()
        words = [*replaced(found["args"], self.changes(port, name)), "--host=127.0.0.1"]
        process = self.started.start(name, words, self.environment())
        for probe in ("readinessProbe", "livenessProbe"):
            path = found[probe]["httpGet"]["path"]
            assert found[probe]["httpGet"]["port"] == "http-dashboard"
            wait_until(lambda path=path: answers(port, path) or process.poll() is not None, f"{name}: {path}")
            assert process.poll() is None, self.started.said(name)

    def run(self, file: str) -> str:
        """A driver, to its end; what it says."""
        words = replaced(container(file, "driver")["args"], self.changes(0, "driver"))
        process = self.started.start(file, words, self.environment())
        code = process.wait(WAIT)
        assert code == 0, self.started.said(file)
        return self.started.said(file)

    def labelgrove(self, *words: str) -> str:
        """A command typed in any pod that sees /data."""
        name = words[0]
        process = self.started.start(name, ["labelgrove", *words], self.environment())
        assert process.wait(WAIT) == 0, self.started.said(name)
        return self.started.said(name)


@pytest.mark.slow
def test_a_run_is_submitted_followed_and_continued_by_the_commands_of_the_files(dataset: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "flowers.toml").write_text(CONFIG.format(name="flowers", data=dataset))
    run = data / "runs" / "flowers"
    with processes(tmp_path) as started:
        cluster = Cluster(started, data)
        cluster.start("cluster.yaml", "scheduler", "scheduler")
        for number in range(WORKERS):
            cluster.start("cluster.yaml", "worker", f"worker-{number}")
        assert "submitted" in cluster.run("submit.yaml")
        followed = cluster.labelgrove("logs", str(run), "--follow")
        assert f"{run}: finished" in followed
        assert "driver 1 of" in followed
        assert "(worker worker-" in followed
        assert "total: 0 of " in cluster.run("job.yaml")
    assert_same(digests_of(run_here(data / "flowers.toml", runs=tmp_path / "serial")), run)


@pytest.mark.slow
def test_helm_values_start_a_worker_whose_driver_finds_its_way(dataset: Path, tmp_path: Path) -> None:
    """With certificates as text in the environment, as the chart has them: the driver inherits them."""
    (values,) = documents("values.yaml")
    data = tmp_path / "data"
    data.mkdir()
    (data / "flowers.toml").write_text(CONFIG.format(name="flowers", data=dataset))
    with processes(tmp_path) as started:
        cluster = Cluster(started, data)
        tls = tmp_path / "tls"
        env = own_environment(
            **{
                entry["name"]: entry.get("value") or (tls / entry["valueFrom"]["secretKeyRef"]["key"]).read_text()
                for entry in values["worker"]["env"]
            }
        )
        words = ["dask", "scheduler", f"--port={cluster.port}", "--dashboard-address=127.0.0.1:0"]  # the chart's own
        started.start("scheduler", [*words, *values["scheduler"]["extraArgs"], "--host=127.0.0.1"], env)
        words = [
            "dask",
            "worker",
            values["worker"]["custom_scheduler_url"],
            "--nthreads",
            "1",
            "--memory-limit",
            "9GiB",
        ]
        words += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0", *values["worker"]["extraArgs"]]
        started.start("worker", [*replaced(words, cluster.changes(0, "worker")), "--host=127.0.0.1"], env)
        cluster.run("submit.yaml")
        assert "finished" in cluster.labelgrove("logs", str(data / "runs" / "flowers"), "--follow")
    serial = run_here(data / "flowers.toml", runs=tmp_path / "serial")
    assert_same(digests_of(serial), data / "runs" / "flowers")
