"""Sweeps: one section for several, and findings at the section that was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import load_config
from pipeline.config_errors import ConfigError

HEAD = 'name = "s"\n[data]\npath = "x.zarr"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "s.toml"
    path.write_text(HEAD + text)
    return path


def test_a_section_stands_for_every_combination(tmp_path: Path) -> None:
    sweep = "sweep = { bits = [8, 9], partitions = [1, 2] }"
    path = written(tmp_path, f'[[train]]\nname = "h-{{bits}}-{{partitions}}"\nkind = "heshing"\n{sweep}\n')
    found = [(learner.name, learner.bits, learner.partitions) for learner in load_config(path).run.train]  # type: ignore[union-attr]
    assert found == [("h-8-1", 8, 1), ("h-8-2", 8, 2), ("h-9-1", 9, 1), ("h-9-2", 9, 2)]


def test_what_reads_a_swept_encoding_is_swept_along(tmp_path: Path) -> None:
    text = (
        '[[encode]]\nname = "c-{hashes}-{seed}"\nkind = "wta"\nsweep = { hashes = [4, 8], seed = [0, 1] }\n'
        '[[train]]\nname = "svm-{hashes}-{seed}"\nkind = "ovr"\nrows = "c-{hashes}-{seed}"\n'
        '[[retrieve]]\nname = "near-{hashes}-{seed}"\nrows = "c-{hashes}-{seed}"\n'
        '[[train]]\nname = "raw"\nkind = "ovr"\n'
    )
    run = load_config(written(tmp_path, text)).run
    places = ["4-0", "4-1", "8-0", "8-1"]
    assert [(code.name, code.hashes, code.seed) for code in run.encode] == [  # type: ignore[union-attr]
        (f"c-{place}", int(place[0]), int(place[2])) for place in places
    ]
    assert [(learner.name, learner.rows) for learner in run.train] == [
        *((f"svm-{place}", f"c-{place}") for place in places),
        ("raw", "x"),
    ]
    assert [(one.name, one.rows) for one in run.retrieve] == [(f"near-{place}", f"c-{place}") for place in places]


def test_a_chain_of_encodings_and_both_kinds_of_rows_join_on_their_common_keys(tmp_path: Path) -> None:
    text = (
        '[[encode]]\nname = "p-{components}"\nkind = "pca"\nsweep = { components = [2, 4] }\n'
        '[[encode]]\nname = "q-{components}-{bits}"\nkind = "pq"\nrows = "p-{components}"\nsweep = { bits = [3, 4] }\n'
        '[[train]]\nname = "t-{components}-{bits}"\nkind = "ovr"\n'
        'rows = "q-{components}-{bits}"\ntest_rows = "p-{components}"\n'
    )
    run = load_config(written(tmp_path, text)).run
    assert [(learner.name, learner.rows, learner.tested_on) for learner in run.train] == [
        (f"t-{c}-{b}", f"q-{c}-{b}", f"p-{c}") for b in (3, 4) for c in (2, 4)
    ]


def test_overrides_name_what_a_sweep_has_made(tmp_path: Path) -> None:
    path = written(tmp_path, '[[train]]\nname = "h-{bits}"\nkind = "heshing"\nsweep = { bits = [8, 9] }\n')
    run = load_config(path, ("h-9.rounds=3",)).run
    assert [learner.rounds for learner in run.train] == [10, 3]


def test_overrides_of_the_section_as_written_count_for_all_of_it(tmp_path: Path) -> None:
    text = (
        '[[encode]]\nname = "c-{hashes}"\nkind = "wta"\nsweep = { hashes = [4, 8] }\n'
        '[[train]]\nname = "svm-{hashes}"\nkind = "ovr"\nrows = "c-{hashes}"\n'
    )
    path = written(tmp_path, text)
    given = ("c-{hashes}.window=3", "train.svm-{hashes}.rounds=2", "svm-8.rounds=5", "c-{hashes}.sweep={hashes=[8,9]}")
    run = load_config(path, given).run
    assert [(code.name, code.window) for code in run.encode] == [("c-8", 3), ("c-9", 3)]  # type: ignore[union-attr]
    assert [(learner.name, learner.rounds) for learner in run.train] == [("svm-8", 5), ("svm-9", 2)]


def test_what_the_name_says_cannot_be_overridden(tmp_path: Path) -> None:
    path = written(tmp_path, '[[train]]\nname = "h-{bits}"\nkind = "heshing"\nsweep = { bits = [8, 9] }\n')
    for override in ("h-8.bits=9", "train.h-8.bits=9"):
        with pytest.raises(ConfigError, match="bits is swept, and the name says its value"):
            load_config(path, (override,))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("sweep = { bits = [2, 3] }", "sweep = { bits = [12, 14] }", ["sweeps bits", "so does 'pq-{bits}'"]),
        ("sweep = { bits = [2, 3] }", "sweep = { bits = [3] }", ["sweeps bits", "so does 'pq-{bits}'"]),
    ],
)
def test_one_key_of_two_sections_is_swept_in_one_of_them(
    tmp_path: Path, first: str, second: str, words: list[str]
) -> None:
    text = (
        f'[[encode]]\nname = "pq-{{bits}}"\nkind = "pq"\n{first}\n'
        f'[[train]]\nname = "h-{{bits}}"\nkind = "heshing"\nrows = "pq-{{bits}}"\n{second}\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_rows_and_test_rows_that_never_agree_are_refused(tmp_path: Path) -> None:
    text = "".join(
        f'[[encode]]\nname = "{name}-{{components}}"\nkind = "pca"\nsweep = {{ components = {values} }}\n'
        for name, values in (("p", [2, 4]), ("q", [3, 5]))
    )
    text += '[[train]]\nname = "t-{components}"\nkind = "ovr"\nrows = "p-{components}"\ntest_rows = "q-{components}"\n'
    with pytest.raises(ConfigError, match="never agree"):
        load_config(written(tmp_path, text))


@pytest.mark.parametrize(
    ("sweep", "name", "words"),
    [
        ("sweep = { bits = [8, 9] }", "h", ["swept over bits", 'name = "h-{bits}"']),
        ("sweep = { bits = 8 }", "h-{bits}", ["lists of values"]),
        ("sweep = { bits = [] }", "h-{bits}", ["lists of values"]),
        ("sweep = 3", "h-{bits}", ["lists of values"]),
        ('sweep = { bits = [8, "many"] }', "h-{bits}", ["line 7: train[1].bits", "'many'"]),
        ("sweep = { bitz = [8, 9] }", "h-{bitz}", ["line 7: train[1].bitz", "did you mean 'bits'"]),
    ],
)
def test_what_is_wrong_is_said_at_its_section(tmp_path: Path, sweep: str, name: str, words: list[str]) -> None:
    first = '[[train]]\nname = "a"\nkind = "ovr"\n'
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, f'{first}[[train]]\nname = "{name}"\nkind = "heshing"\n{sweep}\n'))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_too_many_are_refused_before_they_are_made(tmp_path: Path) -> None:
    values = list(range(1, 101))
    sweep = f"sweep = {{ rounds = {values}, passes = {values} }}"
    with pytest.raises(ConfigError, match="more than 2,000"):
        load_config(written(tmp_path, f'[[train]]\nname = "h-{{rounds}}-{{passes}}"\nkind = "heshing"\n{sweep}\n'))


@pytest.mark.parametrize("keys", ["doubt = [0, 0.0]", "doubt = [1, 1.0]", "doubt = [0, 1]\nsweep = { doubt = [2, 3] }"])
def test_a_list_that_says_a_value_twice_or_is_swept_besides_is_refused(tmp_path: Path, keys: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'name = "c"\n[data]\npath = "d"\n[[train]]\nname = "r"\nkind = "relaxed-hierarchy"\n{keys}\n')
    with pytest.raises(ConfigError, match="once several different ones"):
        load_config(path)


def test_large_values_are_names(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('name = "c"\n[data]\npath = "d"\n[[train]]\nname = "r"\nkind = "marszalek"\ndoubt = [0.5, 1e30]\n')
    assert [one.name for one in load_config(path).run.train] == ["r-0.5", "r-1e30"]
