"""What the pages tell a reader to type, open or look at is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import slipway
from launcher.cluster.manifest import Cluster
from launcher.jobs.load_job import load_job
from launcher.session.prepare_plan import prepare
from tests.docs.pages import IDS, PAGES, ROOT, anchors, blocks, catalogue, code, links, spans
from tools.generate.pages.command_line_page import LAUNCH, commands, options

each_page = pytest.mark.parametrize("page", PAGES, ids=IDS)

OF_PIP = {"--no-index", "--find-links", "--index-url", "--extra-index-url"}
OTHERS = {"--", "--rdzv-endpoint", "--standalone", "--snapshot-update", "--amp", *OF_PIP}
"""Options that the pages name of other programs: torchrun's, pytest's, pip's, a script's in an example."""

PLACEHOLDER = re.compile(r"[A-Z]{3,}[A-Z_-]*")
"""What a reader replaces by a name: FAMILY in launcher/failure_modes/FAMILY.toml."""


def unknown_commands(text: str) -> list[str]:
    """What a text calls a command or an option of `launch` and is none."""
    return [wrong for line in code(text) for wrong in _unknown(line)]


def _unknown(line: str) -> Iterator[str]:
    words = line.split()
    # `-->` points at a line in what the lint prints.
    if words and words[0].startswith("--") and words[0] != "-->":
        yield from (word for word in words[:1] if _option(word) not in _EVERY_OPTION | OTHERS)
    if words[:1] != [LAUNCH] or len(words) < 2:
        return
    first = words[1]
    if first in commands():
        name = first
    elif (two := " ".join(words[1:3])) in commands():
        name = two
    elif first.startswith("-") or first.endswith((".yaml", ".py")):
        name = LAUNCH
    elif first == "COMMAND":
        return
    else:
        yield f"launch {first}"
        return
    for word in words[1:]:
        if word in ("|", ">", "&&", "--"):
            break
        if word.startswith("--") and _option(word) not in options(name):
            yield f"launch {first} {word}"


def _option(word: str) -> str:
    return re.split(r"[=,;:.]", word)[0]


_EVERY_OPTION = {option for name in commands() for option in options(name)}


def unknown_targets(text: str) -> list[str]:
    """What a text calls a target of make and the Makefile has not."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = [line.split()[1] for line in code(text) if line.startswith("make ") and len(line.split()) > 1]
    return [name for name in named if name.isalpha() and name.islower() and name not in targets]


def broken_links(page: Path, text: str) -> list[str]:
    """The links of a page that lead to no file, or to no heading of it."""
    broken = []
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)
    return broken


def missing_places(page: Path, text: str) -> list[str]:
    """The folders, files and modules of this repository that a text names and that are not there."""
    return [span for span in spans(text) if _names_a_place(span) and not _is_there(page, span)]


def _names_a_place(span: str) -> bool:
    if re.fullmatch(r"(launcher|slipway|stacks|constructs|scripts)(\.[a-z_]+)+", span):
        # The archive that is shipped, and what scripts import from the package.
        return span != "slipway.pyz" and span.removeprefix("slipway.") not in dir(slipway)
    return re.fullmatch(r"\.?[a-z][\w.-]*/([\w.*-]+/)*[\w.*-]*", span) is not None


def _is_there(page: Path, span: str) -> bool:
    if "/" not in span:
        span = span.replace(".", "/")
    pattern = PLACEHOLDER.sub("*", span).rstrip("/")
    for place in (ROOT, ROOT / "launcher", page.parent):
        if any(place.glob(pattern)) or any(place.glob(f"{pattern}.py")):
            return True
    return span in MADE_LATER


MADE_LATER = {".slipway/local", ".slipway/environments", "build/torchx", "dist/"}
"""Folders that are no part of the repository: of runs, of what a first benchmark installs, of the wheel."""


@each_page
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    assert unknown_commands(page.read_text("utf-8")) == []


def test_every_command_that_the_catalogue_names_exists() -> None:
    assert unknown_commands(catalogue()) == []


def test_every_command_is_named_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert [name for name in commands() if name != LAUNCH and f"`launch {name}" not in text] == []


@each_page
def test_every_target_of_make_that_a_page_names_exists(page: Path) -> None:
    assert unknown_targets(page.read_text("utf-8")) == []


@each_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text("utf-8")) == []


@each_page
def test_every_place_that_a_page_names_is_there(page: Path) -> None:
    assert missing_places(page, page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`launch recount NAME`", ["launch recount"]),
        ("`launch logs NAME --tail`", ["launch logs --tail"]),
        ("```\n$ launch job.yaml --dryrun\n```", ["launch job.yaml --dryrun"]),
        ("Say `--quick`.", ["--quick"]),
        ("`launch logs NAME --follow` and `launch --version`", []),
    ],
)
def test_a_command_that_does_not_exist_is_seen(text: str, wrong: list[str]) -> None:
    assert unknown_commands(text) == wrong


def test_a_target_a_link_and_a_place_that_do_not_exist_are_seen() -> None:
    page = ROOT / "docs" / "design.md"
    assert unknown_targets("`make report` and `make test`") == ["report"]
    assert broken_links(page, "[a](nowhere.md) [b](design.md#nowhere) [c](reference/costs.md#prices)") == [
        "nowhere.md",
        "design.md#nowhere",
    ]
    assert missing_places(
        page, "`recount/`, `rules/nowhere/`, `launcher.recount.page`, `rules/job/check.py`"
    ) == [
        "recount/",
        "rules/nowhere/",
        "launcher.recount.page",
    ]


def test_the_examples_of_json_can_be_read() -> None:
    for page in PAGES:
        for block in blocks(page.read_text("utf-8"), "json"):
            json.loads(block)


def test_the_findings_in_the_examples_have_the_shape_that_is_printed(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("name: demo\nresources: {instance_typ: ml.p5.48xlarge}\n", "utf-8")
    printed = load_job(job).findings[0].to_json()
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text("utf-8")
    shown = [found for block in blocks(text, "json") for found in _findings(json.loads(block))]
    assert shown
    for finding in shown:
        assert list(finding)[: len(printed)] == list(printed)


def _findings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "severity" in value:
            yield value
        for inner in value.values():
            yield from _findings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _findings(inner)


def test_the_example_of_a_manifest_is_one_with_every_field() -> None:
    (example,) = blocks((ROOT / "docs" / "reference" / "cluster-file.md").read_text("utf-8"), "json")
    assert Cluster.model_validate_json(example)
    assert list(json.loads(example)) == list(Cluster.model_fields)


JOB_FILES = [
    block
    for block in blocks((ROOT / "docs" / "reference" / "job-file.md").read_text("utf-8"), "yaml")
    if block.startswith("name:")
]


def test_the_page_of_the_job_file_has_six_jobs_to_begin_with_and_one_with_everything() -> None:
    assert len(JOB_FILES) == 7


@pytest.mark.parametrize("text", JOB_FILES, ids=lambda text: text.split()[1])
def test_a_job_file_of_the_page_is_one_that_nothing_speaks_against(tmp_path: Path, text: str) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(text, "utf-8")
    loaded = load_job(job)
    assert loaded.findings == ()
    assert loaded.spec is not None
    script = tmp_path / "src" / loaded.spec.code.entry_point
    script.parent.mkdir()
    script.write_text("import argparse\n", "utf-8")
    (tmp_path / "src" / (loaded.spec.code.requirements_file or "none")).touch()
    plan = prepare(loaded, session_region="us-west-2")
    assert [finding for finding in plan.findings if finding.blocks] == []
