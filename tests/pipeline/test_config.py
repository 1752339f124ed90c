"""The config: every finding at once, with line and nearest key; overrides; the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import LabelTree, RunConfig, load_config
from pipeline.config_errors import ConfigError

GOOD = """\
name = "clinc"
seed = 7
[data]
path = "clinc150.zarr"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 64
[[train]]
name = "tree"
kind = "label-tree"
rows = "pq"
test_rows = "x"
branching = 12
depth = 2
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_config_loads_with_defaults(tmp_path: Path) -> None:
    loaded = load_config(write(tmp_path, GOOD))
    assert loaded.run.seed == 7
    assert loaded.dataset_path == tmp_path / "clinc150.zarr"
    tree = loaded.run.train[0]
    assert isinstance(tree, LabelTree)
    assert (tree.branching, tree.tested_on, tree.rounds) == (12, "x", LabelTree.model_fields["rounds"].default)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("subquantizers = 64", "subquantisers = 64", ["line 8", "encode[0].subquantisers", "'subquantizers'"]),
        ("branching = 12", 'branching = "12"', ["line 14", "train[0].branching", "integer", "'12'"]),
        ("depth = 2", "dept = 2", ["line 15", "train[0].dept", "'depth'"]),
        ("depth = 2", "depth = 0", ["train[0].depth", "greater than or equal to 1", "it is 0"]),
        ("depth = 2", "depth = 2.5", ["train[0].depth", "integer"]),
        ('kind = "label-tree"', 'kind = "lable-tree"', ["train[0].kind", "'label-tree'"]),
        ("seed = 7", "sede = 7", ["line 2", "sede", "'seed'"]),
        ("seed = 7", "seed = true", ["line 2", "seed"]),
        ('path = "clinc150.zarr"', "", ["data.path", "required"]),
        ('rows = "pq"', 'rows = "qp"', ["'tree'", "'qp'", "'pq'"]),
        ('name = "pq"', 'name = "a/b"', ["encode[0].name"]),
        ('name = "tree"', 'name = ".."', ["train[0].name"]),
    ],
)
def test_each_fault_is_named_with_its_place(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, GOOD.replace(old, new)))
    assert caught.value.exit_code == 2
    for word in words:
        assert word in str(caught.value)


def test_all_findings_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("depth = 2", "dept = 2").replace("seed = 7", "sede = 7").replace("64", "-1")
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert "3 findings" in str(caught.value)


@pytest.mark.parametrize("text", ["name = ", "\udc80"])
def test_what_is_no_toml_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match="not a TOML file"):
        load_config(path)


def test_a_missing_file_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="labelgrove init"):
        load_config(tmp_path / "none.toml")


def test_overrides_set_values_by_dotted_path(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    loaded = load_config(
        path, ("tree.depth=3", "seed=9", "predict.top=2", "report.title=a word", "train.tree.loss=0.1")
    )
    tree = loaded.run.train[0]
    assert isinstance(tree, LabelTree)
    assert (tree.depth, tree.loss, loaded.run.seed, loaded.run.predict.top) == (3, 0.1, 9, 2)
    assert loaded.run.report.title == "a word"


@pytest.mark.parametrize("override", ["pq.nqs=8", "tre.depth=3", "depth", "tree.depth=x", "=3", "a.b.c.d=1"])
def test_overrides_that_name_nothing_are_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError):
        load_config(write(tmp_path, GOOD), (override,))


def test_two_constraints_or_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give one"):
        load_config(write(tmp_path, GOOD + "ambiguity = 0.3\nloss = 0.1\n"))
    with pytest.raises(ConfigError, match="called 'tree'"):
        load_config(write(tmp_path, GOOD + '[[train]]\nname = "Tree"\nkind = "ovr"\n'))


def test_the_schema_describes_every_key() -> None:
    schema = RunConfig.model_json_schema()
    assert {"PqEncoding", "OneVsRest", "Heshing", "FlatHash", "LabelTree"} <= set(schema["$defs"])
    assert schema["additionalProperties"] is False


def test_the_config_defaults_are_those_of_the_learners() -> None:
    """Two places say a default: the section that the user reads, and the parameters that the loop takes."""
    from pipeline.config import KMeansTree, OneVsRest, PqEncoding, Section
    from tasks.fit.sgd import SgdParams
    from tasks.quantize.pq import PqParams
    from tasks.trees.kmeans.params import KMeansTreeParams
    from tasks.trees.params import LabelTreeParams

    pairs: tuple[tuple[type[Section], object], ...] = (
        (OneVsRest, SgdParams()),
        (PqEncoding, PqParams()),
        (LabelTree, LabelTreeParams()),
        (KMeansTree, KMeansTreeParams()),
    )
    for section, params in pairs:
        shared = {key for key in section.model_fields if hasattr(params, key)} - {"loss", "kind"}
        assert len(shared) >= 4
        assert {key: section.model_fields[key].default for key in shared} == {
            key: getattr(params, key) for key in shared
        }


def test_what_sections_disagree_on_is_a_finding_each(tmp_path: Path) -> None:
    text = 'name = "x"\n[data]\npath = "d"\n' + '[[train]]\nname = "a"\nkind = "ovr"\nrows = "nope"\n' * 2
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "c.toml")
    assert raised.value.what.startswith("3 findings\n")
    assert raised.value.what.count("\n  config: ") == 3
