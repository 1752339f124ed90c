"""Real many-class data made on the spot: characters of the DejaVu faces that matplotlib ships, nothing downloaded."""

from __future__ import annotations

from pipeline.demo.data import DemoData, DemoParams, make_demo_data

__all__ = ["DemoData", "DemoParams", "make_demo_data"]
