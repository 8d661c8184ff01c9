"""What is called healthy, and what is said of what nobody understood."""

from __future__ import annotations

import pytest

from launcher.diagnosis.closing import silent_first
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.ending import End, Ending
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.ranks import RankState
from launcher.diagnosis.record import Record
from tests.diagnosis.cases import cases, records
from tests.diagnosis.threads import threads

STEPS = "\n".join(f"step {number} loss 2.0" for number in range(1, 40))
BROKEN = "flux capacitor error: no more plutonium"


def said(text: str) -> Diagnosis:
    return diagnose(records(text))


@pytest.mark.parametrize(
    "text",
    [
        STEPS,
        f"{BROKEN}\n{STEPS}",
        "reading\nTraining finished",
        "reading\nalgo-1-abcde exited with code 0",
        " 31%|###       | 31/100 [00:02<00:05, 12.1it/s]",
        "2026-08-20 10:00:00 INFO reading the data",
        "evaluation\nerrors: 0, failed_batches: 0\nstep 9 loss 1",
        f"{STEPS}\n2026-08-20 10:00:00 WARNING could not open the board, going on without it",
    ],
)
def test_what_shows_that_it_is_well_is_healthy(text: str) -> None:
    assert (said(text).verdict, said(text).unusual) == (Verdict.HEALTHY, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "starting",
        "loading the data\nbuilding the model",
        f"{STEPS}\n{BROKEN}",
        f"2026-08-20 10:00:00 INFO reading\n{BROKEN}",
        "2026-08-20 10:00:00 INFO connecting to 10.0.0.1",
        "algo-1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 - Init START",
    ],
)
def test_what_shows_nothing_or_ends_with_an_error_that_nobody_knows_is_unknown(text: str) -> None:
    assert (said(text).verdict, said(text).root_cause) == (Verdict.UNKNOWN, None)


def test_the_unknown_shows_how_much_was_read_and_the_last_lines_that_are_unusual() -> None:
    found = said(f"{STEPS}\n{BROKEN}")
    assert found.unusual == (BROKEN,)
    assert "nothing known was met in 40 lines" in found.summary
    assert BROKEN in found.summary


def test_of_several_streams_without_times_no_line_is_called_the_last() -> None:
    one, two = records("something odd: 1", "algo-1"), records("something odder: 2", "algo-2")
    summaries = {diagnose([*first, *then]).summary for first, then in ((one, two), (two, one))}
    assert summaries == {"nothing known was met in 2 lines"}


def test_what_is_shown_of_them_names_who_printed_it_and_hides_secrets() -> None:
    lines = [Record(1.0, "algo-2", "[rank3]: strange error with token=hunter2")]
    (line,) = diagnose(lines).unusual
    assert line.startswith("algo-2 rank 3: strange error")
    assert "hunter2" not in line


def test_the_place_that_ran_it_decides_what_lines_leave_open() -> None:
    lines = records("starting")
    assert diagnose(lines, ending=Ending(End.COMPLETED)).verdict is Verdict.HEALTHY
    assert diagnose(lines, ending=Ending(End.RUNNING)).verdict is Verdict.HEALTHY
    failed = diagnose(records(STEPS), ending=Ending(End.FAILED))
    assert (failed.verdict, "39 lines" in failed.summary) == (Verdict.UNKNOWN, True)


def test_a_dump_that_could_not_be_read_leaves_it_open() -> None:
    found = diagnose(records(STEPS), evidence=[FileEvidence(unread=("rank_0: cut",))])
    assert found.verdict is Verdict.UNKNOWN
    assert "1 file of evidence could not be read" in found.summary


def test_silent_and_empty_streams_beside_one_that_goes_on_say_nothing() -> None:
    lines = [Record(float(number), "algo-1", f"step {number} loss 2") for number in range(9)]
    assert diagnose([Record(0.0, "algo-2", "starting"), *lines]).verdict is Verdict.HEALTHY


def test_the_rank_that_fell_silent_long_before_all_others_is_named() -> None:
    rows = [RankState(rank, last_output=1000.0 if rank != 3 else 400.0) for rank in range(8)]
    assert "rank 3 fell silent first, 10 minutes" in silent_first(rows)
    assert silent_first([RankState(rank, last_output=1000.0 + rank) for rank in range(8)]) is None
    stepped = [RankState(rank, step=40 if rank != 2 else 12) for rank in range(4)]
    assert "rank 2 stopped first, at step 12" in silent_first(stepped)


CUT_OFF = {
    "huggingface-transformers-14936": "it ends within the warnings of a start",
    "huggingface-lerobot-1444": "it ends within the warnings of a start",
    "lightning-ai-pytorch-lightning-10216": "it ends while the ranks meet",
    "ashleve-lightning-hydra-template-223": "it ends within the table of the layers",
    "bmaltais-kohya_ss-1735": "it ends within the warnings of a start",
    "facebookresearch-detectron2-2215": "it ends while the weights are loaded",
    "lambdalabsml-examples-59": "it ends while the scheduler is set up",
    "lightning-ai-pytorch-lightning-13585": "it ends below the table of the layers, where it stood still",
    "foundation-model-stack-fms-hf-tuning-153": "it ends within the warnings of a start",
    "horovod-horovod-308": "it ends within the warnings of a start",
    "huggingface-optimum-neuron-638": "it ends within the headings of the training",
    "lightning-ai-pytorch-lightning-4225": "it ends while the ranks meet",
    "mosaicml-llm-foundry-884": "it ends within the configuration",
    "nvidia-fuser-2497": "it ends within the frames of an error that harmed nothing",
    "nvidia-nccl-1453": "it ends within a table of measurements",
    "nvidia-nccl-tests-128": "it ends within a table of measurements",
    "open-mpi-ompi-10693": "a warning of a start and no more",
    "pytorch-pytorch-60716": "events of workers, and none of the agent that started them",
    "aws-aws-k8s-tester-503": "it ends within a table of measurements",
    "aws-sagemaker-scikit-learn-container-81": "it ends where the toolkit has started the script",
    "awslabs-gluonts-3157": "it ends within the warnings of a start",
    "bigscience-workshop-megatron-deepspeed-220": "it ends within the arguments of a start",
    "bigscience-workshop-megatron-deepspeed-356": "it ends within the arguments of a start",
    "bottlerocket-os-bottlerocket-kernel-kit-313": "it ends within a table of measurements",
    "dstackai-dstack-3961": "it ends within a table of measurements",
    "espnet-espnet-1185": "it ends within the warnings of a start",
    "kubeflow-trainer-1601": "a download that is done, and nothing of the training behind it",
    "nvidia-nccl-527": "measurements and no more",
    "nvidia-nemo-speech-10966": "it ends while groups are made",
    "open-mmlab-mmdetection-11461": "it ends within the environment of a start",
    "aws-aws-ofi-nccl-33": "it ends within a table of measurements",
    "aws-sagemaker-python-sdk-1372": "it ends while the module is installed",
    "huggingface-notebooks-257": "a warning of each rank and no more",
    "lightning-ai-pytorch-lightning-19045": "collectives that are announced, and no counter",
    "lightning-ai-pytorch-lightning-19673": "it ends while the ranks meet",
    "lightning-ai-pytorch-lightning-5155": "it ends within the table of the layers",
    "open-mmlab-mmaction-211": "it ends while the data are read",
    "dmlc-dgl-4537": "it ends while the servers start",
    "espnet-espnet-4161": "it ends within the settings of a start",
    "haotian-liu-llava-449": "it ends within the warnings of a start",
    "nvidia-nemo-speech-5714": "it ends where the first process is registered",
    "huggingface-lerobot-3108": "it ends within the frames of what harmed nothing",
    "aqlaboratory-openfold-486": "it ends within the settings of a start",
    "databrickslabs-dolly-166": "it ends while an extension is built",
    "lightning-ai-pytorch-lightning-19606": "it ends where the first process says that it starts",
    "awslabs-data-on-eks-529": "pods that wait, and nothing of why",
    "meta-pytorch-torchtune-1526": "tables of an evaluation and no more",
    "okuvshynov-slowllama-1": "losses without a counter of steps, cut off within a line",
    "easybuilders-easybuild-easyconfigs-21790": "it ends within the warnings of a start",
    "pytorch-pytorch-81929": "a note of two ranks and no more",
    "rwth-i6-returnn-323": "it ends while the ranks start",
    "sagiodev-stablediffusion_webui-9": "it ends within the warnings of a start",
    "sehoffmann-dmlcloud-38": "it ends within the warnings of a start",
    "verlab-descriptorreasoning_accv_2024-5": "it ends within the warnings of a start",
    "pytorch-elastic-58": "the description of a pod, cut off before its events",
}
"""Logs without a failure in which nothing shows how the job goes on, so that unknown is right."""


def test_no_log_of_those_without_a_failure_becomes_unknown_unless_it_is_cut_off() -> None:
    healthy = {case.name: case.text for case in cases() if not case.label["codes"]}
    healthy |= {each.name: each.text for each in threads() if not each.codes and not each.failure_reason}
    assert len(healthy) >= 80
    assert {name for name, text in healthy.items() if said(text).verdict is Verdict.UNKNOWN} == set(CUT_OFF)


def test_a_clock_without_a_year_gives_no_date() -> None:
    lines = [f"E1231 01:18:5{number}.928463388 31 flux.py:7] {BROKEN}" for number in range(3)]
    found = said("\n".join([*lines, BROKEN]))
    assert found.verdict is Verdict.UNKNOWN
    assert "2000" not in (found.summary or "")
    ended = said("\n".join([BROKEN, *lines]))
    assert "2000" not in (ended.summary or "")


@pytest.mark.parametrize(
    "last",
    [
        "algo-1:88:141 [3] init.cc:1247 NCCL WARN what nobody said before; NCCL_DEBUG=INFO shows more",
        "[rank3]:[E820 11:30:44.123 ProcessGroupNew.cpp:12] what no version before said",
        "[E ProcessGroupNew.cpp:12] what no version before said",
        "E0820 11:30:44.123000 140 torch/distributed/new.py:8] what no version before said",
        "the segments are mismatched",
        "the ring is timing out",
    ],
)
def test_a_last_line_of_the_level_of_errors_is_not_healthy_whatever_it_says(last: str) -> None:
    assert said(f"step 1 loss 2.3\nstep 2 loss 2.2\n{last}").verdict is Verdict.UNKNOWN
