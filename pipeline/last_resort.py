"""Whatever reaches the command line ends as one named error: also what nobody has foreseen."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from typing import TextIO

from tasks.errors import (
    LabelgroveError,
    ResourceError,
    UsageError,
    is_starved,
    one_line,
    without_loose_breaks,
    without_secrets,
)

DEBUG = "LABELGROVE_DEBUG"  # set it to see tracebacks
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileAccess(UsageError):
    """A path of the command line cannot be read or written: not there, a folder, not allowed, name too long."""


class OutOfMemory(ResourceError):
    """This process may not have as much memory as it needs."""


class InternalError(LabelgroveError):
    """A fault of labelgrove: its traceback stands in the file that the message names."""


def named(error: Exception) -> LabelgroveError:
    """The named error of any exception; what is unknown becomes InternalError, its traceback written to a file."""
    if isinstance(error, LabelgroveError):
        return error
    if is_starved(error):
        return OutOfMemory(
            _first_line(error), "this process", "smaller blocks at ingest, or a machine with more memory"
        )
    if isinstance(error, OSError) and (error.filename is not None or error.errno in FULL):
        return _of_file(error)
    hint = f"please report it with that file; what is finished is kept, and {DEBUG}=1 shows the traceback here"
    fault = InternalError(f"{type(error).__name__}: {_first_line(error)}", _traceback_file(error), hint)
    fault.__cause__ = error
    return fault


def exit_code_of(error: BaseException) -> int:
    """The exit code that an exception comes to, as `named` says; nothing is written for it."""
    if isinstance(error, OSError):
        return _of_file(error).exit_code if error.filename is not None or error.errno in FULL else 1
    if is_starved(error):
        return OutOfMemory.exit_code
    return error.exit_code if isinstance(error, LabelgroveError) else InternalError.exit_code


def _of_file(error: OSError) -> LabelgroveError:
    name = error.filename or ""
    place = os.fsdecode(name) if isinstance(name, str | bytes) else str(name)
    if error.errno in FULL:
        from tasks.files import NO_ROOM, DiskFull

        return DiskFull(NO_ROOM[error.errno], place, "free some space and type the same command again")
    hint = "check that the path is there (or its folder, for what is written), and that it may be read and written"
    return FileAccess(error.strerror or _first_line(error), place, hint)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0][:300]


def _traceback_file(error: BaseException) -> str:
    """Where the traceback was written: a new file of the temporary folder, for this user alone."""
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(".txt", "labelgrove-error-")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:  # no room for it anywhere: better on the terminal than lost
        sys.stderr.write(text)
        return "traceback above"
    return path


def report_error(error: LabelgroveError) -> int:
    """Say what is wrong; returns the exit code."""
    say(str(error))
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    return error.exit_code


def say(text: str) -> None:
    """Text to stderr as `clean` has it: a line, or a line and indented ones."""
    _write(clean(text), sys.stderr)


def say_line(text: str) -> None:
    """One line to stderr, whatever names and paths are in it."""
    _write(clean(one_line(text)), sys.stderr)


def put(text: str) -> None:
    """As `say`, to stdout."""
    _write(clean(text), sys.stdout)


def put_line(text: str) -> None:
    """As `say_line`, to stdout."""
    _write(clean(one_line(text)), sys.stdout)


def clean(text: str) -> str:
    """Text without control characters, secrets and line breaks of names, for a terminal."""
    shown = without_loose_breaks(without_secrets(text))
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in shown)


def _write(text: str, stream: TextIO) -> None:
    """In letters that the stream can encode; at once, so that the lines of both streams stand in their order."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


def usage_code(error: Exception) -> int:
    """The parser's own errors: message, nearest option, exit 2; 0 for any other error."""
    show = getattr(error, "show", None)
    if show is None:
        return 0
    if isinstance(said := getattr(error, "message", None), str):
        error.message = clean(said)  # type: ignore[attr-defined]
    show()
    return int(getattr(error, "exit_code", 2))
