"""An estimator's parameters as a config: the schema of the command line checks them, the messages name them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError
from sklearn.utils import check_random_state

from pipeline.config import RunConfig
from pipeline.config_errors import findings_of
from pipeline.estimators.errors import BadParameter, in_python

LARGEST_SEED = 2**31 - 1
PLACE = re.compile(r"^(train|encode)\[\d+\]\.?")
SECTION = re.compile(r"(train|encode) '[^']*':? ?")
KNOWN = re.compile(r" \(known: .*\)$", re.DOTALL)


def seed_of(random_state: Any) -> int:
    """The seed of a run: a whole number itself, else one that is drawn from what scikit-learn makes of it."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise BadParameter(f"random_state = {random_state}: expected a whole number from 0", "random_state")
        return int(random_state)
    return int(check_random_state(random_state).randint(LARGEST_SEED))


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's: grids are often made by np.arange."""
    return value.item() if isinstance(value, np.generic) else value


def config_of(
    seed: int,
    learners: Iterable[Mapping[str, Any]],
    encodings: Iterable[Mapping[str, Any]] = (),
    data: str = "dataset.zarr",
) -> RunConfig:
    """The config of one fit. Raises BadParameter with everything that is wrong, by the name of its parameter."""
    values = {
        "name": "fit",
        "seed": seed,
        "data": {"path": data},
        "encode": [{key: plain(value) for key, value in section.items()} for section in encodings],
        "train": [{key: plain(value) for key, value in section.items()} for section in learners],
    }
    text = json.dumps(values, default=repr)
    try:
        return RunConfig.model_validate_json(text)
    except ValidationError as error:
        found = findings_of(error, RunConfig, json.loads(text), "")
    said = [_said(finding.path, finding.message) for finding in found]
    names = [PLACE.sub("", finding.path) for finding in found]
    names = [name for name in names if name not in ("", "config")]
    raise BadParameter(
        "; ".join(said), ", ".join(names), "help(...) of the class and `labelgrove schema` list the values"
    )


def _said(path: str, message: str) -> str:
    name = PLACE.sub("", path)
    message = KNOWN.sub("", SECTION.sub("", message))
    return in_python(f"{name}: {message}" if name not in ("", "config") else message)
