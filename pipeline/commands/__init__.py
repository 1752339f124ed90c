"""Every command of the command line as a function of the same name; its module is loaded when it is asked for.

So `labelgrove status` pays for what `status` uses alone, not for what the other commands import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.commands.cancelling import cancel
    from pipeline.commands.comparing import compare
    from pipeline.commands.data import ingest, verify
    from pipeline.commands.evaluating import evaluate
    from pipeline.commands.exporting import export
    from pipeline.commands.following import logs
    from pipeline.commands.inspecting import inspect
    from pipeline.commands.looking import doctor, report, status
    from pipeline.commands.predicting import predict
    from pipeline.commands.profiles import nursery, profile_of
    from pipeline.commands.reproducing import reproduce
    from pipeline.commands.retrieving import retrieve
    from pipeline.commands.running import check, choice_of, clean, config_of, plan, run
    from pipeline.commands.starting import demo, init
    from pipeline.commands.submitting import submit

__all__ = [
    "cancel",
    "check",
    "choice_of",
    "clean",
    "compare",
    "config_of",
    "demo",
    "doctor",
    "evaluate",
    "export",
    "ingest",
    "init",
    "inspect",
    "logs",
    "nursery",
    "plan",
    "predict",
    "profile_of",
    "report",
    "reproduce",
    "retrieve",
    "run",
    "status",
    "submit",
    "verify",
]

_FUNCTIONS = {
    "cancelling": ("cancel",),
    "comparing": ("compare",),
    "data": ("ingest", "verify"),
    "evaluating": ("evaluate",),
    "exporting": ("export",),
    "following": ("logs",),
    "inspecting": ("inspect",),
    "looking": ("doctor", "report", "status"),
    "predicting": ("predict",),
    "profiles": ("nursery", "profile_of"),
    "reproducing": ("reproduce",),
    "retrieving": ("retrieve",),
    "running": ("check", "choice_of", "clean", "config_of", "plan", "run"),
    "starting": ("demo", "init"),
    "submitting": ("submit",),
}
_MODULE_OF = {function: module for module, functions in _FUNCTIONS.items() for function in functions}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # the next look finds it without this function
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_MODULE_OF))
