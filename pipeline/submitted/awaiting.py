"""A submission that waits for a first worker: `status` and `cancel` know of it, and nobody else takes its folder."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any, Self

from pipeline.interrupts import INTERRUPTED
from pipeline.last_resort import exit_code_of, say
from pipeline.lock import holder, locked
from pipeline.stop_request import Stop, forget_request, stoppable
from pipeline.store import RunFolder
from pipeline.submitted.submission import (
    ASKING,
    ENDED,
    NEVER_TAKEN,
    Order,
    Submission,
    read_submission,
    renew,
    write_submission,
)
from tasks.errors import LabelgroveError


class Awaiting:
    """A submitter without a worker to hand to: it holds the run folder, so that `status` and `cancel` know of it.

    Within it, any error ends what was recorded; `cancel` raises KeyboardInterrupt until it is `over`.
    """

    def __init__(self, folder: RunFolder, order: Order, scheduler: str) -> None:
        self.folder, self.stop = folder, Stop(order.token)
        self._record = Submission(order.token, order.by, scheduler, time.time(), ASKING)
        self._held, self._recorded = contextlib.ExitStack(), False

    def begin(self, text: str) -> None:
        """No worker is there yet, as `text` says. Raises RunLocked when somebody runs in the folder."""
        say(text)
        if message := self._held.enter_context(locked(self.folder.path, self.stop.ask)):
            say(message)
        write_submission(self.folder, replace(self._record, told=holder(self.folder.path)))
        self._recorded = True
        self._held.enter_context(stoppable(self.folder, self.stop))

    def over(self) -> None:
        """The cluster has it from now on, and the folder is free for the driver."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is not None and self._recorded:
                self._end(error)
        finally:
            self._held.__exit__(kind, error, trace)

    def _end(self, error: BaseException) -> None:
        """The record says how it ended, unless the cluster has it by now."""
        if self.stop.reason:
            say(self.stop.reason)
        code, told = INTERRUPTED, self.stop.reason or NEVER_TAKEN
        if not isinstance(error, KeyboardInterrupt):
            words = str(error) if isinstance(error, LabelgroveError) else f"{type(error).__name__}: {error}"
            code, told = exit_code_of(error), words.partition("\n")[0]
        with contextlib.suppress(OSError, LabelgroveError):  # a store that is away: what stopped us says more
            found = read_submission(self.folder)
            if found is not None and (found.token, found.state) == (self._record.token, ASKING):
                renew(self.folder, found.token, state=ENDED, code=code, told=told)
                forget_request(self.folder)
