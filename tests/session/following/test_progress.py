"""What is picked from the lines of trainings as they are written."""

from __future__ import annotations

import pytest

from launcher.backends.interface import LogLine
from launcher.session.following.progress import ProgressReader, curve_in_blocks


def lines(*texts: str, host: str = "algo-1") -> list[LogLine]:
    return [LogLine(float(number), host, text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("epoch=3 loss=0.5120 samples/s=4100", {"epoch": 3, "loss": 0.512, "samples/s": 4100}),
        ("step 12: train_loss: 2.31e-1, 5.5 samples/s", {"step": 12, "loss": 0.231, "samples/s": 5.5}),
        ("{'loss': 1.25, 'grad_norm': 3.0, 'epoch': 0.5}", {"loss": 1.25, "epoch": 0.5}),
        (
            "{'loss': '4.303', 'grad_norm': '2.274', 'learning_rate': '0.0021', 'epoch': '0.2041'}",
            {"loss": 4.303, "epoch": 0.2041},
        ),  # Transformers 5 prints texts
        (" iteration      100/  2000 | lm loss: 6.5E+00 | loss scale: 1.0 |", {"step": 100, "loss": 6.5}),
        ("Epoch: [1][10/500] Loss 0.70 (0.71)", {"epoch": 1, "step": 10, "loss": 0.7}),
        ("Epoch 2: 31%|#  | 31/100 [00:02<00:05, train_loss=2.5]", {"epoch": 2, "step": 31, "loss": 2.5}),
        ("Map: 100%|####| 1000/1000 [00:02<00:00, 500it/s]", {}),
        ("step 7 val loss 0.5", {"step": 7}),
        ("step 7 validation loss 0.5 train loss 0.6", {"step": 7, "loss": 0.6}),
        ("GLOBAL_STEP 5 LOSS=0.7 IMAGES/SEC=12", {"step": 5, "loss": 0.7, "samples/s": 12}),
        ("Iter 4, 320.5 examples/sec", {"step": 4, "samples/s": 320.5}),
        ('{"step": 7, "loss": NaN}', {"step": 7}),
        ("eval_loss=0.3", {}),
        ("loss_scale=65536", {}),
        ("saved a checkpoint at the last step", {}),
        ("12 steps/s", {}),
    ],
)  # fmt: skip
def test_common_ways_to_print_are_read(text: str, values: dict[str, float]) -> None:
    progress = ProgressReader().read(lines(text))
    found = {} if progress is None else {n: v for n, v in progress.values.items() if v == v}
    assert found == values


def test_the_jobs_own_definitions_go_first() -> None:
    reader = ProgressReader({"train:loss": r"objective (\S+)", "accuracy": r"acc=(\S+)"})
    progress = reader.read(lines("objective 0.25 acc=0.9 loss=7 step=3"))
    assert progress is not None
    assert progress.values == {"train:loss": 0.25, "accuracy": 0.9, "step": 3}
    assert progress.drawn == "train:loss"


def test_the_loss_of_a_validation_is_drawn_only_where_there_is_no_other() -> None:
    held_out, trained = {"validation:loss": r"vl=(\S+)"}, {"train:loss": r"tl=(\S+)"}
    for definitions, drawn in (
        ({**held_out, **trained}, "train:loss"),
        (held_out, "validation:loss"),
    ):
        progress = ProgressReader(definitions).read(lines("vl=1 tl=2"))
        assert progress is not None
        assert progress.drawn == drawn


def test_a_definition_that_python_cannot_read_is_left_out() -> None:
    assert ProgressReader({"loss": "(?<bad>("}).read(lines("loss=1")) is not None


def test_what_every_rank_prints_counts_once() -> None:
    reader = ProgressReader(processes_per_host=2)
    reader.read(lines("[rank3]: step=1 loss=9"))
    progress = reader.read(
        lines("[rank0]: step=1 loss=1", "[rank3]: step=1 loss=9", "[rank0]: step=2 loss=2")
    )
    assert progress is not None
    assert progress.values["loss"] == 2
    assert list(progress.curve) == [9, 1, 2]


def test_rank_0_takes_over_on_whichever_host_it_is_and_keeps_the_floor() -> None:
    reader = ProgressReader()
    reader.read(lines("[rank8]: loss=9", host="algo-2"))
    reader.read(lines("[rank0]: loss=1", host="algo-3"))
    assert reader.read(lines("loss=7", "[rank8]: loss=8", host="algo-2")) is None
    progress = reader.read(lines("[rank0]: loss=2", host="algo-3"))
    assert progress is not None
    assert list(progress.curve) == [9, 1, 2]


def test_lines_without_metrics_are_no_progress() -> None:
    assert ProgressReader().read(lines("NCCL INFO Bootstrap", "hello")) is None


def test_a_long_training_keeps_a_bounded_curve() -> None:
    reader = ProgressReader()
    progress = None
    for number in range(10_000):
        progress = reader.read(lines(f"loss={number}"))
    assert progress is not None
    assert 256 < len(progress.curve) <= 1024
    assert list(progress.curve) == sorted(progress.curve)


@pytest.mark.parametrize(
    ("values", "width", "curve"),
    [
        ([], 8, ""),
        ([1, 1, 1], 8, "▁▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([0, 0, 7, 7], 2, "▁█"),
    ],
)
def test_the_curve_goes_from_the_lowest_to_the_highest_block(
    values: list[float], width: int, curve: str
) -> None:
    assert curve_in_blocks(values, width) == curve


def test_of_a_line_without_end_the_beginning_is_read() -> None:
    progress = ProgressReader().read(lines("step 3, samples " + "1" * 1_000_000 + " loss=0.5"))
    assert progress is not None
    assert progress.values == {"step": 3}
