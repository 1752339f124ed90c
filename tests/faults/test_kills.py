"""The kill test itself: two kills in every test run, a hundred in the long one; and its parts one by one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline.store import RunFolder
from tests.faults.__main__ import strike_all
from tests.faults.blow import BEFORE, CLIENT, WITHIN, Order, role_of, tear
from tests.faults.places import EVENT, KINDS, LOCK, MARK, RENAME, WRITE, kind_of
from tests.faults.plan import APART, BLOWS, LOCAL, TAKEN_OVER, VICTIMS, draw, places_of
from tests.faults.stage import can_be_elsewhere
from tests.systems.harness import environment

SEED = int(os.environ.get("LABELGROVE_KILL_SEED", "0")) or random.SystemRandom().randrange(10**6)


@pytest.mark.timeout(3600)
def test_two_kills(tmp_path: Path) -> None:
    """One of each kind of cluster, of a plan that has one of every victim; the seed that is printed replays them."""
    plan = draw(SEED, 6, can_be_elsewhere())
    chosen = [next(kill.number for kill in plan if kill.mode == mode) for mode in (LOCAL, APART)]
    assert [one.wrong for one in strike_all(SEED, 6, tmp_path, chosen)] == ["", ""]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_six_kills(tmp_path: Path) -> None:
    """One of every victim."""
    assert [one.wrong for one in strike_all(SEED, 6, tmp_path)] == [""] * 6


@pytest.mark.slow
@pytest.mark.timeout(10800)
def test_long_a_hundred_kills(tmp_path: Path) -> None:
    found = strike_all(SEED, 100, tmp_path)
    assert [(one.kill.number, one.wrong) for one in found if one.wrong] == []
    assert len(found) == 100


def test_a_seed_plans_the_same_kills_and_all_victims_and_places_come() -> None:
    plan = draw(5, 300)
    assert draw(5, 300) == plan
    assert draw(6, 300) != plan
    counts = Counter((kill.mode, kill.victim) for kill in plan)
    assert set(counts) == set(VICTIMS)
    assert max(counts.values()) == min(counts.values()) == 50
    assert {kill.blow for kill in plan} == set(BLOWS)
    assert {kill.blow for kill in draw(5, 300, taking_over=False)} == set(BLOWS) - {TAKEN_OVER}
    assert {kill.place for kill in plan if kill.victim == CLIENT} > set(places_of(CLIENT))
    assert {kill.mode for kill in plan if kill.victim in ("scheduler", "nanny")} == {APART}
    assert not any(kill.again and kill.place.kind == LOCK for kill in plan)


def test_changes_of_the_disk_have_names() -> None:
    writing = os.O_WRONLY | os.O_CREAT
    spare = "/r/steps/a/.DONE.json.partial-0123456789ab"
    known = {
        ("open", (spare, "w", writing)): WRITE,
        ("open", ("/r/x/c/0." + "a" * 32 + ".partial", "w", writing)): WRITE,
        ("open", ("/r/events.jsonl", "a", writing)): EVENT,
        ("os.rename", (spare, "/r/steps/a/DONE.json", -1, -1)): MARK,
        ("os.rename", ("/r/.model.partial-0123456789ab", "/r/model", -1, -1)): RENAME,
        ("os.link", ("/r/.lock.json.partial-0123456789ab", "/r/lock.json", -1, -1)): LOCK,
        ("open", (spare, "r", os.O_RDONLY)): "",
        ("open", (7, "w", writing)): "",
        ("os.rename", ("/r/model", "/r/.model.partial-0123456789ab", -1, -1)): "",
        ("import", ("os", None)): "",
    }
    assert {change: kind_of(*change) for change in known} == known
    assert {kind for kind in known.values() if kind} == set(KINDS)


@pytest.mark.parametrize("when", [BEFORE, WITHIN, "after"])
def test_a_process_is_struck_at_the_change_that_was_asked_for(tmp_path: Path, when: str) -> None:
    """The third event: not there, half there, or there, and the process is gone."""
    order = tmp_path / "order"
    Order(4, CLIENT, when, EVENT, 3, "SIGKILL").write(order)
    program = (
        "import sys; sys.orig_argv = ['pipeline.cli']; from tests.faults.blow import arm; arm(sys.argv[1]);"
        "from pathlib import Path; from pipeline.store import RunFolder;"
        "[RunFolder(Path(sys.argv[2])).event(str(i)) for i in range(9)]"
    )
    (tmp_path / "run").mkdir()
    done = subprocess.run([sys.executable, "-c", program, order, tmp_path / "run"], env=environment(), check=False)
    assert done.returncode == -9
    assert int((tmp_path / "STRUCK-4").read_text()) > 0
    text = (tmp_path / "run" / "events.jsonl").read_bytes()
    assert [event["event"] for event in RunFolder(tmp_path / "run").events()] == list(
        "012" if when == "after" else "01"
    )
    assert text.endswith(b"\n") == (when != WITHIN)


def test_roles_and_torn_files(tmp_path: Path) -> None:
    assert role_of(["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"]) == "worker"
    assert role_of(["python", "-c", "from multiprocessing.resource_tracker import main"]) == ""
    (tmp_path / "a").write_bytes(b"12345678")
    tear(str(tmp_path / "a"), WRITE)
    assert (tmp_path / "a").read_bytes() == b"1234"
    (tmp_path / "b").write_bytes(b"one\ntwo two\n")
    tear(str(tmp_path / "b"), EVENT)
    assert (tmp_path / "b").read_bytes() == b"one\ntwo "
