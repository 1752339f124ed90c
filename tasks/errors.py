"""Named errors: what is wrong, exactly where, and what to do next.

Every error a user can cause derives from `LabelgroveError`; its class name is the stable code shown to the user,
`exit_code` is what the command line returns. Arguments stay in `args`, so an error survives pickling back from a
worker.
"""

from __future__ import annotations

import errno
import re
from typing import ClassVar

# A scheme and what may follow it: a path that was made of a URL has one slash.
WAY_IN = re.compile(r"((?<![\w.+-])[A-Za-z][A-Za-z0-9.+-]*:/{1,2})\S*@")
QUERY = re.compile(r"((?<![\w.+-])[A-Za-z][A-Za-z0-9.+-]*:/{1,2}[^\s?]*)\?[^\s\])]+")


# A line that goes on is indented, so a line break before anything else is of a name, and would begin a line of ours.
LOOSE_BREAK = re.compile(r"\n(?!  )|\r")
BREAKS = {"\n": "\\n", "\r": "\\r"}


def one_line(text: str) -> str:
    """Text with its line breaks as \\n and \\r: of a name or a place, which may hold some."""
    return "".join(BREAKS.get(letter, letter) for letter in text)


def without_loose_breaks(text: str) -> str:
    """Text whose only line breaks are those before lines that are indented; all others are shown as \\n and \\r."""
    return LOOSE_BREAK.sub(lambda found: BREAKS[found[0]], text)


def without_secrets(text: str) -> str:
    """Text as it may be shown: URLs in it without user, password and query, whatever somebody has typed."""
    return QUERY.sub(r"\1", WAY_IN.sub(r"\1", text))


def is_starved(error: BaseException) -> bool:
    """Whether an exception says that this process may have no more memory, and nothing of what it was reading.

    A thread that cannot be started is one without room for its stack.
    """
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))


class LabelgroveError(Exception):
    """Base of all named errors: `what` went wrong, `where` exactly, and a `hint` about what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)
        self.what, self.where, self.hint = what, where, hint

    @property
    def code(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        place = f" [{one_line(self.where)}]" if self.where else ""
        advice = f"\n  what to do: {self.hint}" if self.hint else ""
        return without_loose_breaks(without_secrets(f"{self.code}: {self.what}{place}{advice}"))


class UsageError(LabelgroveError):
    """The command line or the config asks for something impossible."""

    exit_code = 2


class ParamError(UsageError):
    """One parameter is outside its range: name, value, accepted values, reason."""

    def __init__(self, name: str, value: object, accepted: str, why: str) -> None:
        super().__init__(f"{name} = {value!r}: expected {accepted}, because {why}", where=name)
        self.args = (name, value, accepted, why)


class InputError(LabelgroveError):
    """The input data cannot be trusted."""

    exit_code = 3


class ArtefactError(LabelgroveError):
    """Something we wrote earlier is missing, damaged, unsafe or of an unknown version."""

    exit_code = 4


class ResourceError(LabelgroveError):
    """Out of disk or memory."""

    exit_code = 5


class Diverged(LabelgroveError):
    """Weights or objective became non-finite: the model is never written."""
