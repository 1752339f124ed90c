"""One kill: start a run, strike, see how the client ends; later run again and see that nothing was lost."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pipeline.lock import STALE_SECONDS
from pipeline.run_check import run_problems
from pipeline.store import DONE, RunFolder, unfinished_below
from tests.faults.blow import CLIENT, NANNY, SCHEDULER, WORKER, Order
from tests.faults.plan import APART, KILL, LOCAL, STARTING, STOP_GO, STOP_KILL, TAKEN_OVER, Kill
from tests.faults.stage import BUSY, RUN, TIMEOUTS, Course, Scene, steps_begun, victims
from tests.systems.digests import differences, digests_of
from tests.systems.harness import Started, alive, events_of, labelgrove

KILLED = -signal.SIGKILL
GOES_ON, LOST, LOCKED = 0, 6, 8
POLL = 0.02


class Wrong(Exception):
    """Something that must not be."""


def limit_of(course: Course, *waits: float) -> float:
    """Seconds within which anything must have ended: the work, with room for a busy machine, and the time-outs."""
    return BUSY + 5 * course.seconds + sum(waits)


def asleep_seconds(victim: str) -> float:
    """How long a stopped process sleeps: longer than whoever waits for it does."""
    by_role = {
        WORKER: 2 * TIMEOUTS.worker_silent + TIMEOUTS.worker_lost,
        NANNY: 2 * TIMEOUTS.worker_silent,
        CLIENT: 2 * TIMEOUTS.worker_silent + TIMEOUTS.worker_lost,
        SCHEDULER: TIMEOUTS.noticed(),
    }
    return by_role[victim] + 1.0


def marks_of(run: Path) -> dict[str, tuple[int, str]]:
    """Step folder -> when its DONE.json was written, and its digest."""
    found = {}
    for path in sorted(run.glob(f"steps/*/{DONE}")):
        found[path.parent.name] = (path.stat().st_mtime_ns, str(json.loads(path.read_text())["digest"]))
    return found


@dataclass
class Attempts:
    """The attempts at one run folder: what was finished after each of them."""

    runs: Path
    kept: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        return self.runs / RUN

    def check(self) -> None:
        """What was finished before the last attempt is what it was, and was not begun again. Raises Wrong."""
        now = marks_of(self.run)
        if redone := sorted(name for name, mark in self.kept.items() if now.get(name) != mark):
            raise Wrong(f"finished steps were redone: {', '.join(redone)}")
        self.kept = now

    def last_steps(self) -> list[str]:
        """Folders of the steps that the last attempt has begun, in their order."""
        events = events_of(self.run)
        starts = [i for i, event in enumerate(events) if event["event"] == "run"] or [0]
        begun = [event for event in events[starts[-1] :] if event["event"] == "step"]
        return [f"{event['step']}-{event['fingerprint'][:12]}" for event in begun]


class Trial:
    """Strikes runs of one scene."""

    def __init__(self, scene: Scene, courses: dict[str, Course]) -> None:
        self.scene, self.courses = scene, courses
        self._runs = 0

    def new(self) -> Attempts:
        """A run that has not begun."""
        self._runs += 1
        return Attempts(self.scene.folder / f"run-{self._runs}")

    def strike(self, kill: Kill, attempts: Attempts) -> tuple[int, float]:
        """(exit code, seconds from the blow to the end) of a client that is disturbed in this way. Raises Wrong."""
        course, share = self.courses[kill.mode], 0.8 * kill.share  # no run takes as long as the one before
        for _ in range(4):
            Order(kill.number, "nobody", "", "", 0, "").write(self.scene.order)
            if kill.mode == APART:
                self.scene.cluster()
            struck = self.scene.order.with_name(f"STRUCK-{kill.number}")
            if kill.place.kind:
                self._give_order(kill, course, share)
            with self.scene.client(kill.mode, attempts.runs) as client:
                victim = self._fell(kill, course, share, client, attempts, struck)
                if victim is None:  # it was over before the blow fell: nearer to its beginning then
                    self._expect(kill, client, {GOES_ON})
                    attempts.check()
                    shutil.rmtree(attempts.runs)
                    attempts.kept.clear()
                    share *= 0.4
                    continue
                since = time.monotonic()
                code = self._after(kill, client, victim, attempts)
                seconds = time.monotonic() - since
            attempts.check()
            if kill.mode == APART and kill.victim in (SCHEDULER, NANNY):
                self.scene.drop_cluster()
            return code, seconds
        raise Wrong("the blow never fell")

    def _give_order(self, kill: Kill, course: Course, share: float) -> None:
        """Which of the changes of its kind it is to be: the first ones, when a run makes fewer than were counted."""
        count = max(1, course.changes.get((kill.victim, kill.place.kind), 1))
        sign = "SIGKILL" if kill.blow == KILL else "SIGSTOP"
        nth = 1 + int(share * count)
        Order(kill.number, kill.victim, kill.place.when, kill.place.kind, nth, sign).write(self.scene.order)

    def _fell(
        self, kill: Kill, course: Course, share: float, client: Started, attempts: Attempts, struck: Path
    ) -> psutil.Process | None:
        """The process that was struck, None when the client has ended first."""
        end = time.monotonic() + limit_of(course)
        if kill.place.kind:
            _poll(lambda: _pid(struck) or client.process.poll() is not None, end, "the blow", client)
            pid = _pid(struck)
            with contextlib.suppress(psutil.NoSuchProcess):
                return self._landed(kill, client, psutil.Process(pid)) if pid else None
            return psutil.Process()  # killed and gone: any process stands for it
        before = steps_begun(attempts.runs)
        seconds = share * (course.starting if kill.place.when == STARTING else course.working)
        if kill.place.when != STARTING:
            begun = lambda: steps_begun(attempts.runs) > before or client.process.poll() is not None  # noqa: E731
            _poll(begun, end, "the first step", client)
        time.sleep(seconds)
        found: list[psutil.Process] = []

        def there() -> bool:
            ended = client.process.poll() is not None
            found[:] = [] if ended else alive(victims(self.scene, client, kill.mode, kill.victim))
            return ended or bool(found)

        _poll(there, end, f"a {kill.victim}", client)
        if not found:
            return None
        chosen = found[kill.which % len(found)]
        with contextlib.suppress(psutil.NoSuchProcess):
            chosen.send_signal(signal.SIGKILL if kill.blow == KILL else signal.SIGSTOP)
            return self._landed(kill, client, chosen)
        return None

    def _landed(self, kill: Kill, client: Started, victim: psutil.Process) -> psutil.Process | None:
        """The victim once it is what the blow makes of it; None when it was faster, and had ended by itself.

        Between a look at a process and the signal it may end, and a signal to what has just ended raises nothing.
        """
        if kill.blow == KILL:
            by_itself = kill.victim == CLIENT and client.wait(BUSY) != KILLED
            return None if by_itself else victim
        _poll(lambda: not alive([victim]) or _is_stopped(victim), time.monotonic() + BUSY, "the stop", client)
        return victim if alive([victim]) else None

    def _after(self, kill: Kill, client: Started, victim: psutil.Process, attempts: Attempts) -> int:
        """The client's exit code; a stopped victim sleeps, then goes on or is killed."""
        below = _children(client)
        if kill.blow == KILL:
            code = self._expect(kill, client, CODES[kill.victim, KILL])
        elif kill.victim == CLIENT:
            code = self._client_slept(kill, client, attempts)
        else:
            code = self._other_slept(kill, client, victim)
        limit = limit_of(self.courses[kill.mode], TIMEOUTS.connect, TIMEOUTS.stopping)
        _poll(lambda: not alive(below), time.monotonic() + limit, "the client's own processes to end", client)
        return code

    def _client_slept(self, kill: Kill, client: Started, attempts: Attempts) -> int:
        """While it sleeps its folder is its own, on this host; another host takes it over."""
        process = psutil.Process(client.process.pid)
        if kill.blow == TAKEN_OVER:
            time.sleep(STALE_SECONDS + 1)
            with self.scene.client(LOCAL, attempts.runs, host="elsewhere") as other:
                if (code := other.wait(limit_of(self.courses[LOCAL]))) != GOES_ON:
                    raise Wrong(f"a run on another host ended with {code}:\n{other.text[-2000:]}")
            before = _content(attempts.run)
            process.send_signal(signal.SIGCONT)
            code = self._expect(kill, client, CODES[CLIENT, TAKEN_OVER])
            if changed := {name for name, stamp in _content(attempts.run).items() if before.get(name) != stamp}:
                raise Wrong(f"after another host had taken it over it still wrote {', '.join(sorted(changed))}")
            return code
        began = time.monotonic()
        self._refused(client, attempts)
        time.sleep(max(0.0, asleep_seconds(CLIENT) - (time.monotonic() - began)))
        process.send_signal(signal.SIGCONT if kill.blow == STOP_GO else signal.SIGKILL)
        return self._expect(kill, client, CODES[CLIENT, kill.blow])

    def _refused(self, client: Started, attempts: Attempts) -> None:
        """A second run of the folder of one that sleeps, if that one has it already, says so at once."""
        if not (attempts.run / "lock.json").exists():
            return
        arguments = self.scene.arguments(LOCAL, attempts.runs)
        ended = labelgrove(*arguments)
        if ended.code != LOCKED:
            raise Wrong(f"a second run beside {client.process.pid} that sleeps: {ended.code}\n{ended.err[-2000:]}")

    def _other_slept(self, kill: Kill, client: Started, victim: psutil.Process) -> int:
        """A scheduler, nanny or worker sleeps for longer than it is waited for; the client need not wait so long."""
        asleep = asleep_seconds(kill.victim)
        if kill.victim == SCHEDULER:
            _poll(lambda: client.process.poll() is not None, time.monotonic() + asleep + BUSY, "its end", client)
        else:
            time.sleep(asleep)
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGCONT if kill.blow == STOP_GO else signal.SIGKILL)
        return self._expect(kill, client, CODES[kill.victim, kill.blow])

    def _expect(self, kill: Kill, client: Started, codes: set[int]) -> int:
        """The client's exit code, one of these within the limit. Raises Wrong."""
        workers = (TIMEOUTS.starting, 2 * TIMEOUTS.worker_silent, TIMEOUTS.worker_lost)
        waits = (*workers, TIMEOUTS.connect, TIMEOUTS.noticed())
        limit = limit_of(self.courses[kill.mode], *waits)
        try:
            code = client.wait(limit)
        except AssertionError:
            raise Wrong(f"hangs: no end within {limit:.0f} s\n{client.text[-2000:]}") from None
        if code not in codes:
            raise Wrong(f"exit code {code}\n{client.text[-3000:]}")
        if "Traceback" in client.text:
            raise Wrong(f"a traceback\n{client.text[-3000:]}")
        return code

    def finish(self, mode: str, attempts: Attempts) -> None:
        """Run again, undisturbed: it ends well, redoes nothing, and is what it would have been. Raises Wrong."""
        Order(0, "nobody", "", "", 0, "").write(self.scene.order)
        with self.scene.client(mode, attempts.runs) as client:
            try:
                slowest = max(self.courses.values(), key=lambda course: course.seconds)
                code = client.wait(limit_of(slowest, TIMEOUTS.connect, TIMEOUTS.starting))
            except AssertionError as error:
                raise Wrong(f"run again: hangs: {error}") from None
            if code != GOES_ON:
                raise Wrong(f"run again: exit code {code}\n{client.text[-3000:]}")
        before = set(attempts.kept)
        if again := sorted(before & set(attempts.last_steps())):
            raise Wrong(f"run again: finished steps were begun again: {', '.join(again)}")
        attempts.check()
        if wrong := differences(self.scene.expected, digests_of(attempts.run)):
            raise Wrong(f"run again: other digests of {', '.join(wrong)}")
        if damaged := list(run_problems(RunFolder(attempts.run))):
            raise Wrong(f"run again: {damaged[0]}")
        left = [path.name for path in unfinished_below(attempts.run)]
        left += [name for name in ("lock.json", "scratch", "solved") if (attempts.run / name).exists()]
        if left:
            raise Wrong(f"run again: left behind {', '.join(left)}")
        shutil.rmtree(attempts.runs)


CODES: dict[tuple[str, str], set[int]] = {
    (CLIENT, KILL): {KILLED},
    (CLIENT, STOP_KILL): {KILLED},
    (CLIENT, STOP_GO): {GOES_ON, LOST},
    (CLIENT, TAKEN_OVER): {LOCKED},
    # A client whose tasks are all done needs no scheduler any more.
    **{(SCHEDULER, blow): {LOST, GOES_ON} for blow in (KILL, STOP_GO, STOP_KILL)},
    **{(victim, blow): {GOES_ON} for victim in (WORKER, NANNY) for blow in (KILL, STOP_GO, STOP_KILL)},
}


def _pid(struck: Path) -> int:
    """The process that has struck itself, 0 when none has yet."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(struck.read_text())
    return 0


def _is_stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False


def _children(client: Started) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(psutil.Process(client.process.pid).children(recursive=True))
    return []


def _content(run: Path) -> dict[str, tuple[int, int]]:
    """Every file below a run folder, with what changes when it is written."""
    return {
        path.relative_to(run).as_posix(): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(run.rglob("*"))
        if path.is_file()
    }


def _poll(happened: Callable[[], Any], end: float, what: str, client: Started) -> None:
    while not happened():
        if time.monotonic() > end:
            raise Wrong(f"waited in vain for {what}\n{client.text[-2000:]}")
        time.sleep(POLL)
