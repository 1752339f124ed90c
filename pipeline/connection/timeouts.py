"""How long anything is waited for: nothing of a run waits longer than what stands here, whatever stops or dies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; `[timeouts]` of a profile changes them, by these names. They never change what is computed.

    connect           until a scheduler answers at all, and until a connection is made or closed
    starting          until a worker of our own has started; a frozen one never has
    answer            one question to the scheduler; a frozen one never answers
    poll              between two questions
    scheduler_silent  a scheduler that does not answer is given this long
    no_workers        a cluster without workers is given this long
    worker_silent     a worker of our own cluster that gives no sign of life is replaced after this long, or twice it:
                      Dask looks as seldom as that
    worker_lost       a worker that has died and not come back is given up, and another started
    stopping          what runs when a run is stopped is waited for
    """

    connect: float = 30.0
    starting: float = 120.0
    answer: float = 10.0
    poll: float = 2.0
    scheduler_silent: float = 30.0
    no_workers: float = 300.0
    worker_silent: float = 300.0
    worker_lost: float = 15.0
    stopping: float = 20.0

    def noticed(self) -> float:
        """Within this long a scheduler that is silent, or gone, has ended the command, if nothing else keeps it."""
        return self.scheduler_silent + 3 * self.answer + 2 * self.poll + self.stopping
