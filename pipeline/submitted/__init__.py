"""Runs whose driver works beside a worker: handed over, recorded, followed and stopped from anywhere."""
