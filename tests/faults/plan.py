"""Which kills: all of them drawn from one seed, so that it replays them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.faults.blow import AFTER, BEFORE, CLIENT, NANNY, SCHEDULER, WITHIN, WORKER
from tests.faults.places import EVENT, KINDS, LOCK, MARK, RENAME, WRITE

LOCAL, APART, SERIAL = "local", "apart", "serial"
VICTIMS = (
    (LOCAL, CLIENT),
    (LOCAL, WORKER),
    (APART, CLIENT),
    (APART, WORKER),
    (APART, SCHEDULER),
    (APART, NANNY),
)
KILL, STOP_GO, STOP_KILL, TAKEN_OVER = "kill", "stop, continue", "stop, kill", "stop, taken over"
BLOWS = {KILL: 6, STOP_GO: 2, STOP_KILL: 2, TAKEN_OVER: 1}  # with what weight each is drawn; the last of clients alone
STARTING, WORKING = "starting", "working"
OF_A_WORKER = (WRITE, RENAME, MARK)
AGAIN = 0.25  # share of kills that strike a run which the kill before has left unfinished


@dataclass(frozen=True)
class Place:
    """When the blow falls: at a named change of the disk, or a share of the way through a phase of the run."""

    when: str  # BEFORE, WITHIN, AFTER with a kind of change; STARTING, WORKING without
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.when} {self.kind}".strip()


@dataclass(frozen=True)
class Kill:
    """One blow to one process of a run.

    mode   LOCAL: scheduler and nannies in the client's process; APART: processes of their own
    share  in [0, 1): how far through the phase, or which of the changes of that kind
    which  of several workers or nannies
    again  strikes the run that the kill before has left unfinished, not a new one
    ends   where the run is finished: in the same kind of cluster, or SERIAL
    """

    number: int
    mode: str
    victim: str
    blow: str
    place: Place
    share: float
    which: int
    again: bool
    ends: str

    def __str__(self) -> str:
        return f"{self.number:4d}  {self.mode:5s}  {self.victim:9s}  {self.blow:16s}  {self.place!s:17s}"


def places_of(victim: str) -> list[Place]:
    """Named changes at which a process of a role can be struck; schedulers and nannies change no file of a run."""
    if victim not in (CLIENT, WORKER):
        return []
    kinds = KINDS if victim == CLIENT else OF_A_WORKER
    torn = [Place(WITHIN, kind) for kind in (WRITE, EVENT) if kind in kinds]
    return [Place(when, kind) for kind in kinds for when in (BEFORE, AFTER)] + torn


def draw(seed: int, count: int, taking_over: bool = True) -> list[Kill]:
    """`count` kills: every victim as often as the others, half of the blows at named places, where there are any.

    taking_over  whether processes of another host can be had: some clients sleep until such a one has their run
    """
    rng = random.Random(seed)
    kills: list[Kill] = []
    bags: dict[str, list[Place]] = {}
    round_of: list[tuple[str, str]] = []
    for number in range(1, count + 1):
        if not round_of:
            round_of = rng.sample(VICTIMS, len(VICTIMS))
        mode, victim = round_of.pop()
        blows = [blow for blow in BLOWS if blow != TAKEN_OVER or (taking_over and victim == CLIENT)]
        blow = rng.choices(blows, weights=[BLOWS[blow] for blow in blows])[0]
        named = [] if blow == TAKEN_OVER else places_of(victim)
        if named and rng.random() < 0.5:
            bag = bags.setdefault(victim, [])
            if not bag:
                bag.extend(rng.sample(named, len(named)))  # every place once before any comes twice
            place = bag.pop()
        else:
            place = Place(STARTING if named and rng.random() < 0.25 else WORKING)
        again = rng.random() < AGAIN and place.kind != LOCK and blow != TAKEN_OVER
        ends = rng.choice((mode, SERIAL))
        kills.append(Kill(number, mode, victim, blow, place, rng.random(), rng.randrange(2), again, ends))
    return kills
