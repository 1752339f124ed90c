"""Signals that interrupt a command as Ctrl-C does, and an interruption that is not lost on the way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

INTERRUPTED = 130  # exit code of a command that was interrupted


def hear_sigterm() -> None:
    """SIGTERM is an interruption from now on, and one that came while an object was being deleted is made again."""
    signal.signal(signal.SIGTERM, interrupt)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _interrupt_again


def interrupt(signum: int, frame: Any) -> None:  # noqa: ARG001
    """A signal handler."""
    raise KeyboardInterrupt


def _interrupt_again(swallowed: sys.UnraisableHookArgs) -> None:
    """An interruption that came while an object was being deleted is lost to the program: it is made again."""
    if isinstance(swallowed.exc_value, KeyboardInterrupt):
        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(swallowed)
