"""Where /opt/ml stands in a word, and where something else does."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from launcher.backends.interface import JobState
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.layout import below, leads_inside
from tests.backends.workplace import Workplace, finish, texts

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

ROOT = Path("/run")


def test_the_containers_root_is_mapped_wherever_it_begins_a_path_and_other_paths_stay() -> None:
    mapped = {**dict(CASES["mapped"]), **{text: text for text in CASES["other paths"]}}
    assert {text: below(ROOT, text) for text in mapped} == mapped
    # A backslash makes no pattern of a root.
    assert below(Path(r"/a\1b"), "x=/opt/ml/y") == r"x=/a\1b/y"


def test_a_path_that_climbs_out_of_the_container_is_not_inside() -> None:
    assert leads_inside("/opt/ml/a/../checkpoints")
    assert not leads_inside("/opt/ml/../../home/me")
    assert not leads_inside("/opt/ml")


def test_a_script_finds_its_folder_in_every_word(workplace: Workplace, local: LocalBackend) -> None:
    script = """
        import json, os, sys
        print(json.dumps([sys.argv[1:], os.environ["PLACES"]]))
    """
    local.submit(
        workplace.plan(
            script,
            arguments=("--out_dir=/opt/ml/checkpoints", "/data/opt/ml/x"),
            environment={"PLACES": "a:/opt/ml/x,/opt/mlx"},
            HyperParameters={"trainer": '{"to": "/opt/ml/model"}'},
        )
    )
    finish(local)
    root = workplace.home / "job-1" / "hosts" / "algo-1" / "ml"
    words, places = json.loads(texts(local)[-1])
    assert words == [
        "--trainer", f'{{"to": "{root}/model"}}', f"--out_dir={root}/checkpoints", "/data/opt/ml/x",
    ]  # fmt: skip
    assert places == f"a:{root}/x,/opt/mlx"


def test_a_checkpoint_path_that_climbs_out_creates_nothing_outside(
    workplace: Workplace, local: LocalBackend
) -> None:
    # Five folders up from what stands for /opt/ml is the folder of the test.
    checkpoints = {"S3Uri": "s3://bucket/prefix", "LocalPath": "/opt/ml/../../../../../outside/saved"}
    local.submit(workplace.plan("pass", CheckpointConfig=checkpoints))
    assert finish(local).state is JobState.COMPLETED
    assert not (workplace.folder / "outside").exists()
    assert (workplace.home / "job-1" / "hosts" / "algo-1" / "ml" / "checkpoints").is_symlink()
