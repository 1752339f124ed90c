"""Every file of a finished run, damaged in every way: found, named, and repaired by the next run or refused."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.run_check import run_problems
from pipeline.store import DONE, MANIFEST, RunFolder
from tasks.errors import ArtefactError
from tests.damage import HOWS, damage
from tests.faults.many_kinds import many_kinds, of_images
from tests.systems.digests import differences, digests_of
from tests.systems.harness import general, labelgrove, run_here

SEED = int(os.environ.get("LABELGROVE_DAMAGE_SEED", "0")) or random.SystemRandom().randrange(10**6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> config of a finished run, its folder beside it; filled when first asked for."""
    return {"folder": tmp_path_factory.mktemp("made")}


@pytest.fixture(params=[pytest.param(many_kinds, marks=pytest.mark.slow), of_images], ids=lambda make: make.__name__)
def config(made: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A finished run of one's own: of many kinds of steps, by workers; of images, in this process."""
    make = request.param
    if make.__name__ not in made:
        folder = made["folder"] / make.__name__
        folder.mkdir()
        made[make.__name__] = make(folder)
        run_here(made[make.__name__], "local:2" if make is many_kinds else "serial")
    source = made[make.__name__]
    shutil.copytree(source.parent, tmp_path / "own")
    return tmp_path / "own" / source.name


def run_of(config: Path) -> Path:
    return next((config.parent / "runs").iterdir())


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())


def of_every_kind(run: Path, rng: random.Random) -> list[Path]:
    """Of files whose names differ by numbers alone one at random, in random order."""
    files = files_of(run)
    rng.shuffle(files)
    found = list({general(str(path.relative_to(run))): path for path in files}.values())
    rng.shuffle(found)
    return found


def damaged(paths: list[Path], ways: Callable[[], str], rng: random.Random) -> Iterator[tuple[Path, str]]:
    """One file after another, damaged while it is yielded and put back then."""
    for path in paths:
        saved, how = path.read_bytes(), ways()
        if not damage(path, how, rng):
            continue
        yield path, how
        path.unlink(missing_ok=True)
        path.write_bytes(saved)


def problems(run: Path) -> list[ArtefactError]:
    return list(run_problems(RunFolder(run)))


def assert_found(run: Path, path: Path, how: str) -> None:
    found, place = problems(run), str(path.relative_to(run))
    assert found, f"{how} of {place} is not found"
    assert all(error.exit_code == 4 for error in found)
    assert any(place in str(error) for error in found), f"{how} of {place}: {found[0]}"


def assert_healed(config: Path, run: Path, path: Path, how: str, expected: dict[str, str]) -> None:
    """The next run makes it anew; a manifest that is there and wrong is refused until it is removed, as the hint says:
    it tells whose folder this is."""
    where = f"{how} of {path.relative_to(run)}"
    if path.name == MANIFEST and path.exists():
        with pytest.raises(ArtefactError, match=MANIFEST) as caught:
            run_here(config)
        assert caught.value.exit_code == 4
        assert "remove this file" in str(caught.value)
        path.unlink()
    run_here(config)
    assert differences(expected, digests_of(run)) == [], where
    assert problems(run) == [], where


def test_damage_of_every_file_is_found_and_named(config: Path) -> None:
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    run, rng = run_of(config), random.Random(SEED)
    assert problems(run) == []
    tried = 0
    for path, how in damaged(files_of(run), lambda: rng.choice(HOWS), rng):
        assert_found(run, path, how)
        tried += 1
    assert tried > 0.8 * len(files_of(run))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wanted", HOWS)
def test_long_every_damage_of_every_file_is_found_and_named(config: Path, wanted: str) -> None:
    run, rng = run_of(config), random.Random(SEED)
    found = [assert_found(run, path, how) for path, how in damaged(files_of(run), lambda: wanted, rng)]
    assert len(found) > 0.5 * len(files_of(run))


def test_the_next_run_repairs_what_is_damaged(config: Path) -> None:
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    run, rng = run_of(config), random.Random(SEED)
    assert heal(config, run, of_every_kind(run, rng)[:4], lambda: rng.choice(HOWS), rng) > 0


def heal(config: Path, run: Path, paths: list[Path], ways: Callable[[], str], rng: random.Random) -> int:
    """One file after another is damaged, and the run repeated; how many were."""
    expected, healed = digests_of(run), 0
    for path in paths:
        how = ways()
        if path.exists() and damage(path, how, rng):  # a page of a former attempt goes when it is damaged
            assert_healed(config, run, path, how, expected)
            healed += 1
    return healed


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("wanted", HOWS)
def test_long_every_kind_of_file_is_repaired(config: Path, wanted: str) -> None:
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    run, rng = run_of(config), random.Random(f"{SEED} {wanted}")
    assert heal(config, run, of_every_kind(run, rng), lambda: wanted, rng) > 10


def test_several_files_damaged_at_once(config: Path) -> None:
    """A third of all files: the command ends well, with the same digests, or names what is wrong with exit 4."""
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    run, rng = run_of(config), random.Random(SEED)
    expected = digests_of(run)
    files = [path for path in files_of(run) if path.name != MANIFEST]
    hurt = [path for path in rng.sample(files, len(files) // 3) if damage(path, rng.choice(HOWS), rng)]
    assert len(hurt) > 5
    said = labelgrove("verify", run)
    assert said.code == 4
    missed = [path.relative_to(run) for path in hurt if str(path.relative_to(run)) not in said.err + said.out]
    known = {path.parent.relative_to(run) for path in hurt if path.name == DONE}  # of these DONE.json alone is named
    published = run / "steps" in {path.parent.parent for path in hurt if path.name == DONE and "report" in str(path)}
    assert [path for path in missed if path.parts[0] == "steps" and Path(*path.parts[:2]) not in known] == []
    assert published or [path for path in missed if path.parts[0] != "steps"] == []
    run_here(config)
    assert differences(expected, digests_of(run)) == []
    assert problems(run) == []


def test_whatever_an_unfinished_step_holds_it_ends_as_it_should(config: Path) -> None:
    """No step is done, and half of what each of them has left is damaged: nothing of it is taken for whole."""
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    run, rng = run_of(config), random.Random(SEED)
    expected = digests_of(run)
    for done in run.glob(f"steps/*/{DONE}"):
        done.unlink()
    left = files_of(run / "steps")
    hurt = [path for path in rng.sample(left, len(left) // 2) if damage(path, rng.choice(HOWS), rng)]
    assert len(hurt) > 5
    run_here(config)
    assert differences(expected, digests_of(run)) == []
    assert problems(run) == []
