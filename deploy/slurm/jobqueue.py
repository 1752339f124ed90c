"""Workers as Slurm jobs of their own, by dask-jobqueue: as many as are wanted, taken from the queue as they come.

    python jobqueue.py /shared/labelgrove --jobs 16 --walltime 04:00:00
    labelgrove run flowers.toml --profile profile.toml     # in another terminal, as often as you like

It holds the scheduler, so it runs as long as the cluster is wanted: on a login node in tmux, or as a small job. Ctrl-C
ends the jobs. Workers leave before their time is up, and others are asked for in their place.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import dask
import yaml
from dask_jobqueue import SLURMCluster
from distributed import Security

LEAVE_MINUTES = 6  # before the walltime: what a worker has in hand ends elsewhere


def minutes(walltime: str) -> int:
    """HH:MM:SS of Slurm."""
    hours, minutes, seconds = (int(part) for part in walltime.split(":"))
    return 60 * hours + minutes + seconds // 60


def slurm_cluster(home: Path, given: argparse.Namespace) -> SLURMCluster:
    """A cluster without workers; `home` is seen by all nodes and holds tls/ and dask.yaml."""
    tls = home / "tls"
    ca, cert, key = (str(tls / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    roles = {
        f"tls_{role}_{part}": path
        for role in ("scheduler", "worker", "client")
        for part, path in (("cert", cert), ("key", key))
    }
    security = Security(tls_ca_file=ca, require_encryption=True, **roles)
    lifetime = max(1, minutes(given.walltime) - LEAVE_MINUTES)
    return SLURMCluster(
        cores=1,
        processes=1,
        memory=given.memory,  # Dask's limit; job_mem is Slurm's, and leaves room for nanny and driver
        job_mem=given.job_memory,
        job_cpu=1,
        walltime=given.walltime,
        queue=given.partition,
        account=given.account,
        python="python",
        local_directory=given.scratch,
        log_directory=str(home / "worker-logs"),
        job_name="labelgrove-worker",
        job_script_prologue=[f"export DASK_CONFIG={home / 'dask.yaml'}", *given.prologue],
        worker_extra_args=["--lifetime", f"{lifetime}m", "--lifetime-stagger", "2m", "--no-dashboard"],
        death_timeout="120",
        security=security,
        protocol="tls://",
        scheduler_options={
            "dashboard_address": given.dashboard,
            "scheduler_file": str(home / "scheduler.json"),
            **({"interface": given.interface} if given.interface else {}),
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Workers as Slurm jobs.")
    parser.add_argument("home", type=Path, help="a folder that all nodes see, with tls/ and dask.yaml")
    parser.add_argument("--jobs", type=int, default=4, help="workers, one a job")
    parser.add_argument("--memory", default="3GiB", help="of a worker")
    parser.add_argument("--job-memory", default="4G", help="of a job: above --memory")
    parser.add_argument("--walltime", default="04:00:00", help="of a job")
    parser.add_argument("--partition", help="of the jobs")
    parser.add_argument("--account", help="that pays")
    parser.add_argument("--scratch", default="/tmp", help="folder of each node")
    parser.add_argument("--interface", help="network of scheduler and workers: ib0, eth0")
    parser.add_argument("--dashboard", default="127.0.0.1:8787", help="address of the dashboard")
    parser.add_argument("--prologue", action="append", default=[], help="line before the worker: module load ...")
    parser.add_argument("--print-job", action="store_true", help="show the job that would be submitted")
    given = parser.parse_args()
    dask.config.update_defaults(yaml.safe_load((given.home / "dask.yaml").read_text()))
    with slurm_cluster(given.home.absolute(), given) as cluster:
        if given.print_job:
            print(cluster.job_script())
            return
        cluster.adapt(minimum_jobs=given.jobs, maximum_jobs=given.jobs)  # a job that has ended is replaced
        print(f"scheduler {cluster.scheduler_address}, dashboard {cluster.dashboard_link}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("ending the jobs")


if __name__ == "__main__":
    main()
