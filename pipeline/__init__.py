"""Machines: config, plan, run folder, Dask, report. Imports `tasks`; `tasks` never imports this."""
