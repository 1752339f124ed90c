"""Every command of the command line as a function of the same name."""

from pipeline.commands.comparing import compare
from pipeline.commands.data import ingest, verify
from pipeline.commands.evaluating import evaluate
from pipeline.commands.exporting import export
from pipeline.commands.following import logs
from pipeline.commands.inspecting import inspect
from pipeline.commands.looking import doctor, report, status
from pipeline.commands.predicting import predict
from pipeline.commands.reproducing import reproduce
from pipeline.commands.retrieving import retrieve
from pipeline.commands.running import check, choice_of, clean, config_of, plan, profile_of, run
from pipeline.commands.starting import demo, init
from pipeline.commands.submitting import cancel, submit

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
