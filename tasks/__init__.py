"""Mathematics, and what travels to a worker. Never imports dask or `pipeline`."""
