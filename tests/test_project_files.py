"""The files beside the code: what stands at the top, licence, versions, links between pages."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"changes", "deploy", "notebooks", "pipeline", "tasks", "tests"}
BY_ITSELF = {"build", "demo", "dist", "htmlcov", "runs", "share"}  # made by targets of make; git ignores them
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
TOP = ("README.md", "GUIDE.md", "REFERENCE.md", "CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md")
BELOW = sorted(
    path.relative_to(ROOT).as_posix() for name in ("deploy", "notebooks") for path in ROOT.glob(f"{name}/**/*.md")
)
BENCH = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/bench/*.md"))
PAGES = [*TOP, *BELOW, *BENCH]


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: lower case, no punctuation, hyphens for blanks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: Counter[str] = Counter()
    made = set()
    for heading in re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        made.add(f"{anchor}-{found[anchor]}" if found[anchor] else anchor)
        found[anchor] += 1
    return made


def test_only_our_folders_stand_at_the_top() -> None:
    there = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert there - BY_ITSELF - {f"{PROJECT['name']}.egg-info", "__pycache__"} <= FOLDERS
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert {line.strip("/") for line in ignored} >= BY_ITSELF


def test_the_licence_is_bsd_and_named_alike_everywhere() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("BSD 3-Clause License\n\nCopyright (c) 2026, The labelgrove authors\n")
    for words in ("Redistributions of source code must", "Redistributions in binary form must", "Neither the name of"):
        assert words in text
    assert 'PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"' in text
    assert PROJECT["license"] == CITATION["license"] == "BSD-3-Clause"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert "COPY pyproject.toml README.md LICENSE " in (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    assert "!LICENSE" in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def test_the_version_is_the_same_everywhere() -> None:
    newest = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert PROJECT["version"] == CITATION["version"] == newest[1]


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert all(re.fullmatch(r"\[[\d.]+\] - (unreleased|\d{4}-\d{2}-\d{2})", one) for one in releases)


def test_the_citation_is_valid_and_names_the_five_papers() -> None:
    tool = Path(sys.executable).with_name("check-jsonschema")
    command = [tool, "--builtin-schema", "vendor.citation-file-format", ROOT / "CITATION.cff"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    first = [one["authors"][0]["family-names"] for one in CITATION["references"]]
    assert first == ["Zhao", "Chen", "Harchaoui", "Gao", "Deng"]
    assert all(one["title"] and one["year"] for one in CITATION["references"])


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text, here = without_code((ROOT / page).read_text(encoding="utf-8")), (ROOT / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (here / name).resolve() if name else ROOT / page
        assert place.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(place), f"{page}: {target}"


def test_the_contents_of_the_guide_are_its_headings() -> None:
    text = (ROOT / "GUIDE.md").read_text(encoding="utf-8")
    listed = re.findall(r"^ *- \[(.*?)\]\(#", text.split("\n## ")[0], re.MULTILINE)
    assert listed == re.findall(r"^###? (.*)$", without_code(text), re.MULTILINE)
