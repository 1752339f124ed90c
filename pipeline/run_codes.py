"""The codes of a run: found by the name of their encoding, with the dataset that they are of and what made them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pipeline.config import OWN_ROWS, place_from, read_values
from pipeline.config_errors import ConfigError
from pipeline.dataset import Dataset
from pipeline.errors import OtherRun
from pipeline.stage import ENCODER, ROWS_STORE, encode_step
from pipeline.stages.train import encoder_of, own_encoders
from tasks.errors import UsageError
from tasks.io import Block, blocks_of
from tasks.models.encoder import Encoder

if TYPE_CHECKING:
    from pipeline.commands.looking import FoundRun

KINDS = ("wta", "dwta")
STEP = encode_step("")


@dataclass(frozen=True)
class RunCodes:
    """Finished codes of all rows of a dataset.

    chain   folders of the encoding steps that lead from the dataset's own rows to the codes, first to last
    digest  of the content of the codes
    """

    dataset: Dataset
    chain: tuple[Path, ...]
    digest: str

    @classmethod
    def of(cls, found: FoundRun, asked: Path, rows: str) -> Self:
        """The codes called `rows` of a run that was found by the path `asked`.

        Raises UsageError when no such codes are finished, StepDamaged, OtherRun and the errors of the dataset.
        """
        steps = found.manifest["steps"]
        finished = {name: found.folder.done(name, step["fingerprint"]) for name, step in steps.items()}
        codes = [name for name, done in finished.items() if done is not None and done.settings.get("kind") in KINDS]
        if encode_step(rows) not in codes:
            raise _no_codes(rows, [name.removeprefix(STEP) for name in codes], found, asked)
        chain: list[Path] = []
        digest, name = "", rows
        while name != OWN_ROWS:
            done = finished[encode_step(name)]
            if done is None:
                raise _no_codes(name, [], found, asked)
            for damage in found.folder.damage(done, read=f"{ENCODER}/"):  # chunks of rows have checksums of their own
                raise damage
            digest = digest or done.digest
            chain.insert(0, found.folder.step_folder(done.step, done.fingerprint).absolute())
            name = str(done.settings["rows"])
        return cls(_dataset(found, asked), tuple(chain), digest)

    @property
    def store(self) -> str:
        return str(self.chain[-1] / ROWS_STORE)

    def blocks(self) -> list[Block]:
        return blocks_of(self.store)

    def encoders(self) -> list[Encoder]:
        """What turns raw rows into such codes, first to last."""
        return [*own_encoders(self.dataset), *(encoder_of(folder) for folder in self.chain)]


def _no_codes(rows: str, known: list[str], found: FoundRun, asked: Path) -> UsageError:
    config = shlex.quote(str(asked)) if asked.is_file() else "CONFIG"
    hint = f"`labelgrove run {config}` makes those of its config"
    if known:
        hint = f"one of {', '.join(map(repr, known))}; {hint}"
    where = f"{rows}, {found.folder.path}"
    return UsageError(f"the run has no finished codes (wta, dwta) called {rows!r}", where, hint)


def _dataset(found: FoundRun, asked: Path) -> Dataset:
    """The dataset that the run was made from. Raises UsageError when it is not where the config says, OtherRun."""
    place = _dataset_path(found, asked)
    if not place.exists():
        hint = "of a run folder elsewhere give the config: labelgrove retrieve CONFIG ROWS --runs FOLDER"
        raise UsageError("the run's dataset is not there", str(place), hint)
    dataset = Dataset.open(place)
    if dataset.digest != found.manifest["identity"].get("dataset"):
        what = "the run was made from another dataset than stands there now"
        raise OtherRun(what, str(place), "give that dataset its place again, or run the config")
    return dataset


def _dataset_path(found: FoundRun, asked: Path) -> Path:
    """As the run's kept config names it: relative to the config's folder, beside which runs/NAME was made."""
    kept = found.folder / "config.toml"
    run = found.folder.path.absolute()
    own = asked.is_file() and asked.absolute().parent != run  # a config, and not a file of the run folder
    base = asked.absolute().parent if own else run.parent.parent
    values = read_values(kept, tuple(found.manifest.get("asked", {}).get("overrides", ())))[1]
    try:
        return place_from(base, str(values["data"]["path"]))
    except (KeyError, TypeError):
        raise ConfigError("it does not say where the dataset is", str(kept), "give the run's config") from None
