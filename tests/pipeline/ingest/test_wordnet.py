"""WordNet's is_a lists: lines with a space between, names beside them, and only what stands above the classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.dataset import Dataset
from pipeline.ingest import errors, ingest
from pipeline.ingest.class_table import read_classes
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy, taxonomy_and_notes
from pipeline.ingest.wordnet import is_wordnet
from tasks.taxonomy import Taxonomy

# of ImageNet's list, shortened: a dog is a canine and a domestic animal, and there is more than the classes need
ENTITY, ANIMAL, CANINE, DOMESTIC, DOG = "n00001740", "n00015388", "n02083346", "n01317541", "n02084071"
PUG, FOX, OAK, PLANT, PUPPY = "n02110958", "n02118333", "n12268246", "n00017222", "n01322604"
EDGES = [
    (ENTITY, ANIMAL), (ENTITY, PLANT), (ANIMAL, CANINE), (ANIMAL, DOMESTIC), (CANINE, DOG), (DOMESTIC, DOG),
    (CANINE, FOX), (DOG, PUG), (DOG, PUPPY), (PLANT, OAK),
]  # fmt: skip
WORDS = {
    ENTITY: "entity",
    ANIMAL: "animal, animate being",
    CANINE: "canine",
    DOG: "dog",
    PUG: "pug, pug-dog",
    OAK: "oak",
}
CLASSES = [PUG, FOX, OAK]


def written(folder: Path, edges: list[tuple[str, str]], name: str = "wordnet.is_a.txt", between: str = " ") -> Path:
    (folder / name).write_text("".join(f"{above}{between}{below}\n" for above, below in edges))
    return folder / name


def parents_of(tree: Taxonomy) -> dict[str, str]:
    return {name: tree.names[p] for name, p in zip(tree.names, tree.parent, strict=True) if p >= 0}


def built(path: Path, classes: list[str], rule: str = "refuse") -> Taxonomy:
    return build_taxonomy(read_taxonomy(path), read_classes(classes), rule)


@pytest.mark.parametrize(("name", "between"), [("wordnet.is_a.txt", " "), ("is_a.tsv", "\t"), ("IS_A.txt", "  ")])
def test_only_what_stands_above_the_classes_is_read(tmp_path: Path, name: str, between: str) -> None:
    nodes = read_taxonomy(written(tmp_path, EDGES, name, between))
    assert len(nodes.keys) == 10
    tree, notes = taxonomy_and_notes(nodes, read_classes(CLASSES), "first")
    assert parents_of(tree) == {
        ANIMAL: ENTITY, PLANT: ENTITY, CANINE: ANIMAL, DOG: CANINE, FOX: CANINE, PUG: DOG, OAK: PLANT,
    }  # fmt: skip
    assert [tree.names[leaf] for leaf in tree.leaf_of_class] == CLASSES
    (first, *_) = notes
    assert (first.code, first.text.split(" nodes")[0]) == ("NodesLeftOut", "9 of 10")  # all but the puppy


def test_several_parents_above_the_classes_are_refused_and_elsewhere_do_not_count(tmp_path: Path) -> None:
    path = written(tmp_path, EDGES)
    with pytest.raises(errors.TaxonomyMultiParent, match="stands under") as caught:
        built(path, CLASSES)
    assert (DOG in caught.value.what, CANINE in caught.value.what) == (True, True)
    assert "--several-parents" in caught.value.hint
    tree = built(path, [FOX, OAK])  # nothing above these has two
    assert parents_of(tree) == {ANIMAL: ENTITY, PLANT: ENTITY, CANINE: ANIMAL, FOX: CANINE, OAK: PLANT}


def test_a_graph_with_two_roots(tmp_path: Path) -> None:
    """One root is not above any class, so the other is the root; two that are cannot be joined by a guess."""
    path = written(tmp_path, [*EDGES, ("n09999999", DOMESTIC)])
    assert built(path, [FOX, OAK]).names[0] == ENTITY
    tree = built(path, CLASSES, "first")
    assert tree.names[0] == ENTITY
    split = [edge for edge in EDGES if edge != (ENTITY, PLANT)]
    for rule in ("first", "shortest", "longest"):
        with pytest.raises(errors.TaxonomyRoots, match="2 nodes have no parent") as caught:
            built(written(tmp_path, split), CLASSES, rule)
        assert (ENTITY in caught.value.what, PLANT in caught.value.what) == (True, True)


def test_a_cycle_counts_only_above_the_classes(tmp_path: Path) -> None:
    around = [*EDGES, (PUPPY, "n1"), ("n1", "n2"), ("n2", "n1")]
    assert built(written(tmp_path, around), [FOX, OAK]).n_classes == 2
    with pytest.raises(errors.TaxonomyCycle):
        built(written(tmp_path, [*EDGES, (FOX, ANIMAL)]), [FOX, OAK])


def test_words_beside_the_list_name_the_nodes(tmp_path: Path) -> None:
    path = written(tmp_path, EDGES)
    (tmp_path / "words.txt").write_text("".join(f"{key}\t{name}\n" for key, name in WORDS.items()))
    tree = built(path, CLASSES, "first")
    assert parents_of(tree) == {
        "animal, animate being": "entity", PLANT: "entity", "canine": "animal, animate being", "dog": "canine",
        FOX: "canine", "pug, pug-dog": "dog", "oak": PLANT,
    }  # fmt: skip
    named = built(path, ["pug, pug-dog", "oak"], "first")  # classes may go by these names, too
    assert [named.names[leaf] for leaf in named.leaf_of_class] == ["pug, pug-dog", "oak"]


def test_words_that_are_none_are_refused_with_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, EDGES)
    (tmp_path / "words.txt").write_text(f"{DOG}\tdog\n\n{PUG} pug\n")
    with pytest.raises(errors.TaxonomyFormat, match="an id and a name") as caught:
        read_taxonomy(path)
    assert "words.txt, line 3" in caught.value.where


def test_other_files_with_spaces_are_read_whole(tmp_path: Path) -> None:
    """The name tells what is of all of WordNet: what a file of any other name lists must fit the classes."""
    (tmp_path / "words.txt").write_text(f"{OAK}\toak\n")
    path = written(tmp_path, [(ENTITY, PLANT), (PLANT, OAK), (ENTITY, FOX)], "tree.txt")
    assert parents_of(built(path, [OAK, FOX])) == {PLANT: ENTITY, OAK: PLANT, FOX: ENTITY}
    with pytest.raises(errors.TaxonomyUnknownClass, match="childless"):
        built(path, [OAK])
    assert [is_wordnet(Path(name)) for name in ("a/wordnet.is_a.txt", "is_a.csv", "tree.txt", "is_a/tree.txt")] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a b\nb c d\n", "a b\nc\n", "a b\na\tb\nc d e\n"])
def test_lines_that_are_no_two_words_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "is_a.txt").write_text(text)
    with pytest.raises(errors.TaxonomyFormat, match="line"):
        read_taxonomy(tmp_path / "is_a.txt")


def test_a_name_with_spaces_needs_tabs(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("oak tree\tred oak\n")
    assert read_taxonomy(tmp_path / "t.tsv").keys == ["oak tree", "red oak"]


def test_a_dataset_by_such_a_list(tmp_path: Path) -> None:
    rows, labels = np.random.default_rng(0).standard_normal((30, 4)), [CLASSES[i % 3] for i in range(30)]
    path = written(tmp_path, EDGES)
    made = ingest(rows, tmp_path / "d", labels=labels, taxonomy=path, classes=CLASSES, several_parents="shortest")
    tree = Dataset.open(made.path).taxonomy
    assert tree is not None
    assert tree.n_nodes == 8
    assert {note.code for note in made.notes} >= {"NodesLeftOut", "SeveralParents", "Taxonomy"}
