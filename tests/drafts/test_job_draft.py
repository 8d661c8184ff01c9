"""The text of a drafted job file."""

from __future__ import annotations

import pytest
import yaml

from launcher.documents import parse_document
from launcher.drafts.job_draft import DraftField, DraftQuestion, JobDraft, SourceLine, render_draft

DRAFT = JobDraft(
    "Made by `launch init train.py`.",
    (
        DraftField(("resources", "instance_type"), "ml.p4d.24xlarge"),
        DraftField(("name",), "digits"),
        DraftField(("hyperparameters",), {"epochs": 3, "name": "yes: no"}, "the script's own defaults"),
        DraftField(("resources", "instance_count"), 2, "as --count"),
    ),
    (
        DraftQuestion(
            ("inputs", "train"), "which data does the script read?", "s3://BUCKET/train", SourceLine(14)
        ),
        DraftQuestion(("resources", "instance_count"), "how many hosts?"),
        DraftQuestion(("cluster",), "which cluster?", "dev"),
    ),
)


def test_what_is_known_reads_back_and_questions_are_comments() -> None:
    text = render_draft(DRAFT)
    assert (
        yaml.safe_load(text)
        == DRAFT.data()
        == {
            "name": "digits",
            "hyperparameters": {"epochs": 3, "name": "yes: no"},
            "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
        }
    )
    assert (
        text
        == """\
# Made by `launch init train.py`.
name: digits
# the script's own defaults
hyperparameters: {epochs: 3, name: 'yes: no'}
resources:
  instance_type: ml.p4d.24xlarge
  # as --count
  # TODO: how many hosts?
  instance_count: 2
# TODO: which cluster?
# cluster: dev
# inputs:
#   TODO line 14: which data does the script read?
#   train: s3://BUCKET/train
"""
    )


@pytest.mark.parametrize(
    "name", ["a\x85b", "a\u2028b", "a\x1f\x85\U00010000", "x" * 200, "y\n" * 70, "1e5", "? a"]
)
def test_any_name_comes_back_from_its_line(name: str) -> None:
    text = render_draft(JobDraft("", (DraftField(("metrics",), {name: f"{name}=(.*)"}),)))
    assert parse_document(text, "job.yaml", ()).data["metrics"] == {name: f"{name}=(.*)"}
