"""The lock of a run folder in an object store: one object, put if there is none, and put again as a heartbeat.

There is nothing to rename and no kernel lock. Who takes over a lock that was left behind puts a token of its own, waits
and looks again: of several takers the last one to put it goes on. A holder that finds another's token stops.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from pipeline.errors import RunLocked
from tasks.errors import LabelgroveError

SETTLE_SECONDS = 2.0  # between putting one's token over an abandoned lock and believing that it is one's own
TRIES = 10


class RemoteLock:
    """One holder's side of the lock at `path` (a `tasks.remote_path.RemotePath`).

    who      what the lock says of this process, but for the heartbeat
    abandoned  given what a lock says: raises RunLocked while its holder lives, returns what to tell otherwise
    """

    def __init__(self, path: Any, who: Callable[[], dict[str, Any]], abandoned: Callable[[Any], str]) -> None:
        self.path, self.who, self.abandoned = path, who, abandoned
        self.token = uuid.uuid4().hex
        self.lost = False  # another has taken it over, because this process was asleep for long

    def take(self) -> str:
        """ "", or what is to be told of the lock that was taken over. Raises RunLocked."""
        message = ""
        for _ in range(TRIES):
            if self._put_new():
                return message
            held = self._read()
            if held is None:
                continue
            message = self.abandoned(held)
            self.path.write_bytes(self._text())
            time.sleep(SETTLE_SECONDS)
            if self._is_mine():
                return message
        raise RunLocked("the lock changes hands all the time", str(self.path), "are several runs being started?")

    def beat(self, stop: threading.Event, seconds: float, lost: Callable[[str], None]) -> None:
        """Put a new heartbeat now and then; `lost` is called when the lock is another's."""
        while not stop.wait(seconds):
            with contextlib.suppress(LabelgroveError, OSError):  # the store is away: the next beat tries again
                if not self._is_mine():
                    self.lost = True
                    lost("another process has taken over the lock of this run folder")
                    return
                self.path.write_bytes(self._text())

    def still_mine(self) -> bool:
        """Whether nobody has taken it over, as the store says now."""
        self.lost = self.lost or not self._is_mine()
        return not self.lost

    def release(self) -> None:
        """Remove the lock, if it is still one's own."""
        if self.still_mine():
            self.path.unlink(missing_ok=True)

    def _put_new(self) -> bool:
        """Whether the lock was put where there was none."""
        try:
            self.path.write_new(self._text())
        except FileExistsError:
            return False
        except (TypeError, NotImplementedError):  # a file system that cannot put exclusively: as over an abandoned lock
            if self._read() is not None:
                return False
            self.path.write_bytes(self._text())
            time.sleep(SETTLE_SECONDS)
            return self._is_mine()
        return True

    def _text(self) -> bytes:
        return json.dumps({**self.who(), "token": self.token}).encode()

    def _read(self) -> Any:
        """What the lock says; None when there is none."""
        try:
            return json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            return {}

    def _is_mine(self) -> bool:
        held = self._read()
        return isinstance(held, dict) and held.get("token") == self.token
