"""A log is made as short as its answer allows, in names of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.logs.cases import LogCase
from tools.reduce_logs.answers import answer_to
from tools.reduce_logs.fewest_lines import fewest, with_fewest_lines
from tools.reduce_logs.our_names import with_our_names
from tools.reduce_logs.our_paths import Names, our_path

WHOLE = LogCase(
    "one",
    """\
step 1 loss 2.0
step 2 loss 1.9
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/jane/secret-project/tune_it.py", line 7, in tune_everything
[rank3]:     losses = my_loss(batch)
[rank3]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB
srun: error: janes-box-7: task 3: Exited with exit code 1
""",
    "https://example.com/1",
    codes=("MEM001",),
)


def test_of_the_lines_those_stay_that_are_needed() -> None:
    needed = {"b", "e"}
    assert fewest(list("abcdef"), lambda lines: needed <= set(lines)) == ["b", "e"]
    assert fewest(["a"], lambda lines: True) == ["a"]


def test_the_shortest_log_is_answered_as_the_whole_one() -> None:
    short = with_fewest_lines(WHOLE)
    assert answer_to(short) == answer_to(WHOLE)
    assert "step 1" not in short.text
    assert "out of memory" in short.text


def test_names_paths_and_code_become_ours_and_messages_stay() -> None:
    ours = with_our_names(WHOLE)
    assert ours.text.split("\n")[3:7] == [
        '[rank3]:   File "/opt/ml/code/train.py", line 7, in train',
        "[rank3]:     train(model, data)",
        "[rank3]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "srun: error: node-1: task 3: Exited with exit code 1",
    ]


def test_a_name_in_the_label_is_replaced_with_the_log() -> None:
    text = "srun: error: Node failure on janes-box-7\n"
    ours = with_our_names(replace(WHOLE, text=text, codes=("STOP001",), first_failing="janes-box-7"))
    assert (ours.text, ours.first_failing) == ("srun: error: Node failure on node-1\n", "node-1")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (
            "/home/jane/miniconda3/envs/x/lib/python3.9/site-packages/torch/a.py",
            "/opt/conda/lib/python3.9/site-packages/torch/a.py",
        ),
        ("/data/jane/anaconda3/bin/torchrun", "/opt/conda/bin/torchrun"),
        ("/data/jane/env/lib/python3.8/runpy.py", "/opt/conda/lib/python3.8/runpy.py"),
        ("/home/jane/.cache/torch_extensions/x.so", "/root/.cache/torch_extensions/x.so"),
        (r"D:\jane\lib\site-packages\torch\a.py", r"C:\python\lib\site-packages\torch\a.py"),
        (r"D:\jane\go.py", r"C:\code\train.py"),
        ("/usr/local/lib/libx.so", "/usr/local/lib/libx.so"),
        ("../torch/csrc/distributed/c10d/NCCLUtils.hpp", "../torch/csrc/distributed/c10d/NCCLUtils.hpp"),
        ("runs/best/model.pt", "checkpoints/1/model.pt"),
        ("/data/jane/photos", "/opt/ml/input/data/train"),
    ],
)
def test_what_becomes_of_a_path(theirs: str, ours: str) -> None:
    assert our_path(theirs, Names())[0] == ours
