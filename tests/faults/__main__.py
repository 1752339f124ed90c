"""The kill test: python -m tests.faults --kills 100 --seed 7

Clients, schedulers, nannies and workers of a small run are killed (SIGKILL), or stopped (SIGSTOP) for longer than
anybody waits for them and then continued or killed: at random moments, and at named changes of the disk, in clusters
that the client has started and in clusters of processes of their own. After every kill the same command is typed again:
it must end well within the stated time-outs, redo no finished step, and leave the digests of a run that nobody
disturbed. Prints a line per kill and a table; exits 1 on any other outcome. The same seed plans the same kills.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.plan import APART, LOCAL, Kill, draw
from tests.faults.stage import TIMEOUTS, Scene, can_be_elsewhere
from tests.faults.trial import Trial, Wrong


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one kill: seconds from the blow until the client's end; what is wrong, or ""."""

    kill: Kill
    code: int
    seconds: float
    wrong: str


def outcomes(trial: Trial, plan: list[Kill]) -> Iterator[Outcome]:
    """Strike after strike; a run left unfinished is finished before the next, unless that one strikes it too."""
    attempts = trial.new()
    for place, kill in enumerate(plan):
        code, seconds, wrong = 0, 0.0, ""
        try:
            code, seconds = trial.strike(kill, attempts)
            following = plan[place + 1] if place + 1 < len(plan) else None
            if code == 0 or following is None or not following.again:
                trial.finish(kill.ends, attempts)
                attempts = trial.new()
        except Wrong as error:
            wrong = str(error)
            trial.scene.drop_cluster()
            attempts = trial.new()
        yield Outcome(kill, code, seconds, wrong)


def table(found: list[Outcome]) -> str:
    """Of every victim and blow: kills, how the clients ended, longest wait for that."""
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.kill.mode, outcome.kill.victim, outcome.kill.blow].append(outcome)
    lines = [f"{'cluster':8s}{'victim':11s}{'blow':18s}{'kills':>5s}{'wrong':>7s}  longest  exit codes of the client"]
    for (mode, victim, blow), group in sorted(groups.items()):
        codes = sorted({outcome.code for outcome in group if not outcome.wrong})
        wrong, longest = sum(bool(one.wrong) for one in group), max(one.seconds for one in group)
        said = " ".join(map(str, codes))
        lines.append(f"{mode:8s}{victim:11s}{blow:18s}{len(group):5d}{wrong:7d}  {longest:5.1f} s  {said}")
    return "\n".join(lines)


def strike_all(seed: int, count: int, folder: Path, only: Sequence[int] = ()) -> list[Outcome]:
    """Plan, run, print; the outcomes in their order. only: these kills of the plan, all when empty."""
    elsewhere = can_be_elsewhere()
    plan, began = draw(seed, count, elsewhere), time.monotonic()
    plan = [kill for kill in plan if not only or kill.number in only]
    print(f"seed {seed}, {len(plan)} kills; time-outs: {TIMEOUTS}", flush=True)
    if not elsewhere:
        print("no process of another host can be had here: no run is taken over by one", flush=True)
    with Scene(folder) as scene:
        courses = {mode: scene.course(mode) for mode in sorted({kill.mode for kill in plan} | {LOCAL, APART})}
        said = ", ".join(f"{mode} {course.seconds:.1f} s" for mode, course in courses.items())
        print(f"undisturbed: {said}", flush=True)
        found = []
        for outcome in outcomes(Trial(scene, courses), plan):
            end = f"WRONG: {outcome.wrong}" if outcome.wrong else f"exit {outcome.code}, run again: as undisturbed"
            print(f"{outcome.kill} {outcome.seconds:6.1f} s  {end}", flush=True)
            found.append(outcome)
    bad = sum(bool(outcome.wrong) for outcome in found)
    print(
        f"\n{table(found)}\n{len(found)} kills in {(time.monotonic() - began) / 60:.1f} min, {bad} wrong; seed {seed}"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="numbers of kills of the plan, to replay them")
    parser.add_argument("--folder", type=Path, help="where it works, kept; default: a temporary folder")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="labelgrove-faults-") as spare:
        found = strike_all(seed, given.kills, given.folder or Path(spare), given.only)
    sys.exit(1 if any(outcome.wrong for outcome in found) else 0)


if __name__ == "__main__":
    main()
