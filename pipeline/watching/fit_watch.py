"""Tells of the rounds of a fit as their checkpoints are kept."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.watching.telling import Tell
from tasks.fit.fit import Checkpoint, Record
from tasks.fit.scorer import Parameters

SAID = ("round", "loss", "step", "rows")  # of a round's record


class ToldRounds:
    """A checkpoint (see `tasks.fit.fit.Checkpoint`) that also tells of every round.

    model   whose fit it is
    rounds  that it has
    event   for events.jsonl and the dashboard; tell: for the dashboard alone
    """

    def __init__(self, kept: Checkpoint, model: str, rounds: int, event: Tell, tell: Tell) -> None:
        self.kept, self.model, self.rounds, self.event = kept, model, rounds, event
        tell("fitting", model=model, rounds=rounds)

    def load(self) -> tuple[int, Parameters, list[Record]] | None:
        """What the checkpoint holds."""
        return self.kept.load()

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None:
        """Keep it, then say so."""
        self.kept.save(round_index, parameters, history)
        tell_rounds(self.event, self.model, self.rounds, history[-1:])


def tell_rounds(event: Tell, model: str, rounds: int, history: Iterable[Record]) -> None:
    """A message for each of some rounds."""
    for record in history:
        event("round", model=model, rounds=rounds, **{name: record[name] for name in SAID if name in record})
