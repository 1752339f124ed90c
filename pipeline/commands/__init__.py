"""Every command of the command line as a function of the same name."""

from pipeline.commands.data import ingest, verify
from pipeline.commands.inspecting import inspect
from pipeline.commands.looking import doctor, logs, report, status
from pipeline.commands.predicting import predict
from pipeline.commands.retrieving import retrieve
from pipeline.commands.running import check, choice_of, clean, config_of, plan, profile_of, run
from pipeline.commands.starting import demo, init

__all__ = [
    "check",
    "choice_of",
    "clean",
    "config_of",
    "demo",
    "doctor",
    "ingest",
    "init",
    "inspect",
    "logs",
    "plan",
    "predict",
    "profile_of",
    "report",
    "retrieve",
    "run",
    "status",
    "verify",
]
