"""docker-compose.yml, the Dockerfile and Dask's settings: against the schema, and against our own rules."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy import dask_yaml
from tests.deploy.compose import FILE, ROOT, WRITTEN, services

lock_of = runpy.run_path(str(ROOT / "deploy/lock_of.py"))["lock_of"]
LASTING = ("scheduler", "worker", "store")  # they stay until they are stopped


def schema_says(path: Path) -> str:
    """What is wrong with a compose file by the schema of the compose specification, which comes with the package."""
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout if done.returncode else ""


def test_the_schema_of_the_compose_specification_holds(tmp_path: Path) -> None:
    assert schema_says(FILE) == ""
    typo = FILE.read_text().replace("mem_limit:", "memory_limit:", 1)
    (tmp_path / "docker-compose.yml").write_text(typo)
    assert "memory_limit" in schema_says(tmp_path / "docker-compose.yml")


def test_it_says_nothing_that_compose_of_1_29_does_not_know() -> None:
    assert set(yaml.safe_load(FILE.read_text())) == {"x-part", "services"}  # no top-level name, no version


@pytest.mark.parametrize("name", services())
def test_every_service_is_bound_limited_and_nobody_of_note(name: str) -> None:
    service = services()[name]
    assert service["user"] == "1234:1234"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert bytes_of(service["mem_limit"]) >= 1 << 30
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service.get("ports", []))
    assert not service.keys() & {"privileged", "network_mode", "pid", "ipc", "devices", "cap_add"}
    if name in LASTING:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][:2] == ["CMD", "python"]


@pytest.mark.parametrize("missing", WRITTEN)
def test_nothing_starts_before_it_is_prepared(missing: str) -> None:
    values = {name: value for name, value in WRITTEN.items() if name != missing}
    with pytest.raises(KeyError, match=missing):
        services(values)


def test_the_nanny_acts_before_the_kernel() -> None:
    worker = services()["worker"]
    (limit,) = re.findall(r'--memory-limit "([^"]+)"', worker["command"][2])
    assert bytes_of(limit) + (256 << 20) <= bytes_of(worker["mem_limit"])


def bytes_of(text: str) -> int:
    """Of 2GiB, or of Docker's 2g and 2500m."""
    number, unit = re.fullmatch(r"(\d+)(GiB|g|m)", text).groups()  # type: ignore[union-attr]
    return int(number) << {"GiB": 30, "g": 30, "m": 20}[unit]


def test_one_place_is_at_the_same_path_inside_and_outside() -> None:
    for name in ("scheduler", "worker", "submit"):
        share, certificates = services()[name]["volumes"]
        assert share["source"] == share["target"] == WRITTEN["LABELGROVE_SHARE"]
        assert certificates["read_only"] is True


def test_all_parts_speak_tls_and_none_of_them_holds_a_secret() -> None:
    for name in ("scheduler", "worker", "submit"):
        given = services()[name]["environment"]
        assert given["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
        paths = [value for key, value in given.items() if "__TLS__" in key]
        assert len(paths) == 7
        assert all(path.startswith("/certificates/") for path in paths)
        assert all(value is None for key, value in given.items() if key.startswith("AWS_"))  # only passed on
    text = FILE.read_text()
    assert "tls://scheduler:8786" in text
    assert "tcp://" not in text


def test_the_settings_of_dask_are_those_of_a_local_cluster() -> None:
    made = dask_yaml.text()
    assert (ROOT / "deploy/dask.yaml").read_text() == made, "python -m tests.deploy.dask_yaml > deploy/dask.yaml"
    memory = yaml.safe_load(made)["distributed"]["worker"]["memory"]
    assert {name: memory[name] for name in memory if name != "monitor-interval"} == {
        "target": False,
        "spill": False,
        "pause": 0.94,
    }


def dockerfile(name: str) -> list[list[str]]:
    """Instructions, words of each."""
    text = re.sub(r"\\\n", " ", (ROOT / name).read_text())
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("name", ["deploy/Dockerfile", "deploy/store/Dockerfile"])
def test_images_are_of_locked_packages_and_run_as_nobody_of_note(name: str) -> None:
    lines = dockerfile(name)
    assert lines[0] == ["ARG", "BASE_IMAGE=python:3.11-slim-bookworm"]
    stages = [i for i, line in enumerate(lines) if line[0] == "FROM"]
    assert {lines[i][1] for i in stages} <= {"${BASE_IMAGE}", "packages"}
    last = lines[stages[-1] :]
    assert last[0][1] == "${BASE_IMAGE}"
    (user,) = (line[1] for line in last if line[0] == "USER")
    assert user.split(":")[0] != "0"
    assert not any("pip" in line for line in last)
    installs = [shlex.join(line) for line in lines if "install" in line]
    assert installs
    assert all("--require-hashes" in text or "--no-index" in text for text in installs)


def test_the_image_is_made_of_what_is_let_through_alone() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    through = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        word
        for name in ("deploy/Dockerfile", "deploy/store/Dockerfile")
        for line in dockerfile(name)
        if line[0] == "COPY" and not line[1].startswith("--from")
        for word in line[1:-1]
    }
    assert copied == through


def test_a_part_of_a_lock_has_what_its_packages_need() -> None:
    lock = (ROOT / "requirements-dev.lock").read_text()
    part = lock_of(lock, ["hatchling"])
    names = re.findall(r"^([a-z0-9-]+)==", part, re.MULTILINE)
    assert {"hatchling", "pathspec", "pluggy"} <= set(names)
    assert "moto" not in names
    assert part.count("--hash=") >= len(names)
    everything = lock_of(lock, re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE))
    assert re.findall(r"^\S+==\S+", everything, re.MULTILINE) == re.findall(r"^\S+==\S+", lock, re.MULTILINE)
    with pytest.raises(KeyError):
        lock_of(lock, ["no-such-package"])
