"""Profiles that cannot be meant: refused by name when they are read, before anything is touched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline.connection.addresses import fault_of_dashboard, fault_of_scheduler
from pipeline.connection.own_workers import free_dashboard
from pipeline.connection.profile import (
    MOST_BYTES,
    InsecureScheduler,
    Profile,
    ProfileError,
    check_connection,
    load_profile,
    parse_bytes,
)
from tests.pipeline.cli_caller import labelgrove, succeeds

GOOD = ["tcp://127.0.0.1:8786", "tls://scheduler.example:1", "tcp://[::1]:65535", "tls://[fd00::1]:8786", "tcp://a_b:1"]
BAD = {
    "tcp://127.0.0.1:abc": "port",
    "tcp://127.0.0.1:": "port",
    "tcp://127.0.0.1": "names no port",
    "tcp://[::1]": "names no port",
    "tcp://127.0.0.1:0": "from 1 to 65535",
    "tcp://127.0.0.1:65536": "from 1 to 65535",
    "tcp://127.0.0.1:-1": "port",
    "tcp://127.0.0.1:8786/": "port",
    f"tcp://127.0.0.1:{'9' * 5000}": "port",
    "tcp://127.0.0.1:٣": "port",
    "tcp://::1:8786": "write tcp://[::1]:8786",
    "tls://fd00::1": "write tls://[fd00::1]:8786",
    "tcp://[::1:8786": "IP address",
    "tcp://[nonsense]:8786": "IP address",
    "tcp://:8786": "no host",
    "tcp://": "no port",
    "tcp://me:word@there:8786": "IP address",
    "tcp://a b:8786": "IP address",
}


@pytest.mark.parametrize("address", GOOD)
def test_an_address_is_taken(address: str) -> None:
    assert fault_of_scheduler(address) == ""


@pytest.mark.parametrize("address", BAD)
def test_an_address_that_is_none_is_refused_whoever_names_it(tmp_path: Path, address: str) -> None:
    assert BAD[address] in fault_of_scheduler(address)
    with pytest.raises(ProfileError) as caught:
        load_profile(None, scheduler=address, insecure=True)
    assert BAD[address] in str(caught.value)
    assert caught.value.exit_code == 2
    with pytest.raises(ProfileError):
        check_connection(Profile(address, insecure=True))  # as a function, too
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}))
    with pytest.raises(ProfileError, match="no scheduler file"):
        load_profile(None, scheduler=str(file), insecure=True)


CONTENTS = {
    "empty": "",
    "no address": "{}",
    "a list": "[1]",
    "no JSON": "not json",
    "null": "null",
    "a text": '"hello"',
    "a number": '{"address": 5}',
    "no text": '{"address": null}',
    "nothing said": '{"address": ""}',
    "another protocol": '{"address": "inproc://1/2"}',
    "a word": '{"address": "hello"}',
    "deep": "[" * 100_000,
    "half": '{"address": "tcp://127.0.0.1:87',
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_file_that_is_no_scheduler_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(CONTENTS[content])
    with pytest.raises(ProfileError, match="no scheduler file") as caught:
        load_profile(None, scheduler=str(file))
    assert not isinstance(caught.value, InsecureScheduler)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"], ids=["long", "with a null"])
def test_a_name_that_no_file_can_have_is_refused_shortly(name: str) -> None:
    with pytest.raises(ProfileError, match="none of the known forms") as caught:
        load_profile(None, scheduler=name)
    assert len(str(caught.value)) < 500
    with pytest.raises(ProfileError, match="tls_ca"):
        check_connection(Profile("tls://127.0.0.1:1", tls_ca=name))


@pytest.mark.parametrize(
    "line",
    [
        "threads = true",
        "threads = 0",
        "threads = 1025",
        f"threads = {10**22}",
        'scheduler = "local:0"',
        'scheduler = "local:1025"',
        'scheduler = "local:100000000000000"',
        f'scheduler = "local:{"9" * 5000}"',
        'memory_per_worker = "0 GiB"',
        'memory_per_worker = "0.4 B"',
        f'memory_per_worker = "{"9" * 400} GiB"',
        'memory_per_worker = "1.5.1 GiB"',
        f'cache = "{"9" * 400} GiB"',
        'cache = "some"',
        'dashboard = "nonsense"',
        'dashboard = "127.0.0.1:99999999"',
        'dashboard = ":-5"',
        'dashboard = "a b:80"',
        'dashboard = "::1:8787"',
    ],
)
def test_a_value_that_is_out_of_range_is_refused_with_what_is_allowed(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f"{line}\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    assert caught.value.exit_code == 2
    assert caught.value.hint
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ('memory = "1 GiB"', "memory is no setting", "do you mean memory_per_worker?"),
        ("zzz = 1", "zzz is no setting", "settings: scheduler, threads, memory_per_worker"),
        (f"{'a' * 500} = 1", "is no setting", "settings: scheduler"),
        ("threads = true", "threads is true or false here", "must be a whole number"),
        ("threads = 1.0", "threads is a number with a fraction here", "must be a whole number"),
        ("memory_per_worker = 2", "memory_per_worker is a whole number here", "must be a text"),
        ("scheduler = []", "scheduler is a list here", "must be a text"),
        ("timeouts = 3", "timeouts is a whole number here", "must be a table of seconds"),
        ('insecure = "yes"', "insecure is a text", "must be true or false"),
        ("cache = 1979-05-27", "is something else", "must be a text"),
    ],
)
def test_a_setting_that_is_none_is_told_apart_from_one_of_another_type(
    tmp_path: Path, line: str, what: str, hint: str
) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f"{line}\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert "or not" not in caught.value.what
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"a = " + b"[" * 100_000, b"threads"], ids=["bytes", "deep", "no toml"]
)
def test_a_profile_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match="cannot be read") as caught:
        load_profile(str(path))
    assert caught.value.where == str(path)


def test_what_is_in_range_is_taken() -> None:
    assert parse_bytes("1 B", "memory") == 1
    assert parse_bytes("1073741824 GiB", "memory") == MOST_BYTES
    assert load_profile(None, cache="0").cache_bytes() == 0  # keeps no rows
    assert load_profile(None, scheduler="local:1024", threads=1024).local_workers == 1024
    for address in ("", ":0", ":8787", "0.0.0.0:8787", "[::1]:8787", "localhost:65535", "8787"):
        assert fault_of_dashboard(address) == ""


@pytest.mark.parametrize("host", ["nonsense.invalid", "192.0.2.1"])
def test_a_dashboard_on_a_host_that_is_not_here_is_refused(host: str) -> None:
    with pytest.raises(ProfileError, match="none of this machine"):
        free_dashboard(f"{host}:8787")


def test_the_command_line_refuses_before_it_touches_anything(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("")
    said = labelgrove("run", tmp_path / "c.toml", "--scheduler", "tcp://::1:8786")
    assert said.code == 2
    assert said.err.startswith("ProfileError: --scheduler 'tcp://::1:8786': an IPv6 address stands in brackets")
    assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]


def test_help_names_every_key_of_a_profile() -> None:
    said = succeeds("run", "--help").out
    told = " ".join(said[said.index("--profile") : said.index("--insecure ")].split())
    for key in set(Profile.__dataclass_fields__) - {"timeouts"}:  # a table, which the guide explains
        assert re.search(rf"[ \[]{key}[],.; ]|[ \[]{key}$", told), key
