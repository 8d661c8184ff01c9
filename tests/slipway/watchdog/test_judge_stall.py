"""Who stalls a job, judged by what was seen of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.ranks.attendant import ENDED, LOADED, STARTED, Beat
from slipway.watchdog.judge_stall import (
    Pulse,
    Pulses,
    StallLimits,
    StallVerdict,
    ends_job,
    judge_ends,
    judge_stall,
    judge_timeout,
    pulse_of,
    same_round,
    verdict_from_json,
    verdict_to_json,
)
from slipway.watchdog.rank_views import GONE, RankView, UserLine
from tests.slipway.watchdog.ranks_seen import BEHIND, IN_STEP, TRAIN, operation, seen, waiting


def judged(*views: RankView) -> StallVerdict:
    verdict = judge_stall(views, {"train.py": TRAIN}.get)
    assert verdict is not None
    return verdict


def test_who_has_not_entered_what_the_others_wait_in_is_named_with_its_place() -> None:
    verdict = judged(waiting(0), waiting(1), seen(2), waiting(3))
    assert verdict.text == (
        "NCCL004 rank 2 on algo-2 has not entered all_reduce #36 [4160] (train.py:6), in which ranks 0, 1, 3 "
        "wait; it is at train.py:2, process state S"
    )
    assert (verdict.code, verdict.ranks, verdict.certain, verdict.timeout) == ("NCCL004", (2,), False, 600.0)


@pytest.mark.parametrize("state", ["T", GONE])
def test_who_is_stopped_or_gone_will_not_come(state: str) -> None:
    silent = seen(2, state=state, answered=False, recorded=False, last={}, lines=(), groups={})
    assert judged(waiting(0), waiting(1), silent, waiting(3)).certain


def test_as_long_as_another_rank_works_too_nothing_is_certain() -> None:
    stopped = seen(2, state="T", answered=False, recorded=False, last={}, lines=(), groups={})
    verdict = judged(waiting(0), seen(1, state="R"), stopped, waiting(3))
    assert (verdict.ranks, verdict.certain) == ((1, 2), False)


def test_who_gives_no_answer_is_named_as_such() -> None:
    silent = seen(2, answered=False, recorded=False, last={}, lines=(UserLine("train.py", 3, "train"),))
    text = judged(waiting(0), waiting(1), silent, waiting(3)).text
    assert text.endswith("it is at train.py:3, process state S, and gives no answer itself")


def test_another_collective_under_the_same_number_is_a_mismatch() -> None:
    odd = waiting(2, operation(name="broadcast", sizes="[3]", waits=False), operation(37))
    verdict = judged(waiting(0), waiting(1), odd, waiting(3))
    assert verdict.text == (
        "NCCL004 rank 2 on algo-2 called broadcast #36 [3] (train.py:6), where ranks 0, 1, 3 called "
        "all_reduce #36 [4160] (train.py:6)"
    )
    assert verdict.certain


def test_another_size_of_the_same_collective_is_one_too() -> None:
    assert judged(waiting(0), waiting(1), waiting(2, operation(sizes="[9]"))).ranks == (2,)


def test_sizes_that_may_differ_between_ranks_are_none() -> None:
    views = [waiting(rank, operation(name="all_gather", sizes=f"[{rank}]"), world=2) for rank in range(2)]
    assert "all have entered" in judged(*views).text


def test_who_waits_in_another_collective_behind_the_loop_has_left_it() -> None:
    odd = waiting(2, operation(name="barrier", sizes="", lines=BEHIND))
    verdict = judged(waiting(0), waiting(1), odd, waiting(3))
    assert (verdict.code, verdict.ranks, verdict.certain) == ("DATA001", (2,), True)
    assert verdict.text.endswith(
        "called barrier #36 (train.py:9), where ranks 0, 1, 3 called all_reduce #36 [4160] (train.py:6): it "
        "has left the loop at train.py:2, in which the others still are; steps made: rank 2 35; "
        "ranks 0, 1, 3 35, which have begun another"
    )


def test_of_two_ranks_the_one_behind_the_loop_is_the_odd_one() -> None:
    barrier = operation(name="barrier", sizes="", lines=BEHIND)
    assert judged(waiting(0, barrier, world=2), waiting(1, world=2)).ranks == (0,)


def test_who_works_behind_the_loop_may_come_back() -> None:
    verdict = judged(waiting(0), waiting(1), seen(2, lines=BEHIND), waiting(3))
    assert (verdict.code, verdict.certain) == ("DATA001", False)
    assert "behind the loop at train.py:2, in which the others still are; steps made: " in verdict.text


def test_whose_script_has_ended_does_not() -> None:
    verdict = judged(waiting(0), waiting(1), seen(2, ended=True, lines=()), waiting(3))
    assert (verdict.code, verdict.certain) == ("DATA001", True)


@pytest.mark.parametrize("how", [{"failed": True}, {"steps": 0}])
def test_whose_script_failed_or_never_made_a_step_had_not_fewer_batches(how: dict[str, Any]) -> None:
    verdict = judged(waiting(0), waiting(1), replace(seen(2, ended=True, lines=()), **how), waiting(3))
    assert (verdict.code, verdict.certain) == ("NCCL004", True)


def test_those_that_have_left_the_loop_are_named_though_they_are_the_most() -> None:
    barrier = operation(name="barrier", sizes="", lines=BEHIND)
    verdict = judged(waiting(0, barrier), waiting(1, barrier), waiting(2), waiting(3, barrier))
    assert (verdict.code, verdict.ranks) == ("DATA001", (0, 1, 3))
    assert "they have left the loop at train.py:2" in verdict.text


EPOCHS = """\
for epoch in range(10):
    for batch in loader:
        step(batch)
    if rank == 0:
        save()
"""


def in_epochs(rank: int, line: int, epoch: int | None, **more: object) -> RankView:
    """A rank that waits in this line of a script with epochs."""
    lines = (UserLine("train.py", line, "<module>"),)
    counters = {} if epoch is None else {"train.py <module> epoch": epoch}
    return waiting(rank, operation(lines=lines, **more), counters=counters)


def saves(rank: int, epoch: int | None) -> RankView:
    return in_epochs(rank, 5, epoch, name="all_gather", sizes="[8]", saving=True)


@pytest.mark.parametrize("epoch", [2, None])
def test_a_save_that_one_rank_alone_comes_to_while_the_others_are_in_the_next_epoch(
    epoch: int | None,
) -> None:
    others = [in_epochs(rank, 3, None if epoch is None else epoch + 1) for rank in (1, 2, 3)]
    verdict = judge_stall([saves(0, epoch), *others], {"train.py": EPOCHS}.get)
    assert verdict is not None
    assert (verdict.code, verdict.ranks, verdict.certain) == ("CKPT003", (0,), True)
    assert verdict.text.endswith("saving needs ranks 1, 2, 3 as well")


def test_a_save_that_ranks_come_to_while_the_others_are_in_the_same_epoch_is_of_uneven_loops() -> None:
    others = [in_epochs(rank, 3, 2) for rank in (1, 2, 3)]
    verdict = judge_stall([saves(0, 2), *others], {"train.py": EPOCHS}.get)
    assert verdict is not None
    assert (verdict.code, verdict.ranks) == ("DATA001", (0,))


def test_a_save_behind_a_loop_that_has_no_other_around_it_is_of_uneven_loops_too() -> None:
    saving = operation(name="all_gather", lines=(UserLine("train.py", 10, "<module>"),), saving=True)
    verdict = judged(waiting(0, saving), waiting(1), waiting(2), waiting(3))
    assert (verdict.code, verdict.ranks, verdict.certain) == ("DATA001", (0,), True)


def test_what_one_rank_does_alone_in_each_epoch_is_no_uneven_loop() -> None:
    odd = in_epochs(0, 5, 2, name="barrier", sizes="")
    others = [in_epochs(rank, 3, 3) for rank in (1, 2, 3)]
    verdict = judge_stall([odd, *others], {"train.py": EPOCHS}.get)
    assert verdict is not None
    assert verdict.code == "NCCL004"
    assert verdict.text.endswith(
        "the others have gone on without it to another round of the loop around both"
    )


def test_a_loop_is_counted_by_an_attribute_or_by_its_test_as_well() -> None:
    text = EPOCHS.replace("for epoch in range(10):", "while self.epoch < 10:")
    views = [
        replace(view, counters={"train.py <module> self.epoch": 1 if view.rank else 0})
        for view in (saves(0, None), in_epochs(1, 3, None), in_epochs(2, 3, None), in_epochs(3, 3, None))
    ]
    assert same_round(views[0], views[1], {"train.py": text}.get) is False


def test_of_a_chain_the_last_is_named_and_not_the_links() -> None:
    in_pair = operation(5, group="1")
    link = waiting(1, in_pair, groups={"0": (0, 1, 2, 3), "1": (1, 2)})
    verdict = judged(waiting(0), link, seen(2, groups={"0": (0, 1, 2, 3), "1": (1, 2)}), waiting(3))
    assert verdict.ranks == (2,)


def test_the_ranks_of_a_group_that_waits_are_told() -> None:
    in_pair = operation(5, group="1")
    groups = {"0": (0, 1, 2, 3), "1": (1, 2)}
    verdict = judged(seen(0), waiting(1, in_pair, groups=groups), seen(2, groups=groups), seen(3))
    assert verdict.ranks == (2,)
    assert "all_reduce #5 [4160] of the group of ranks 1, 2 (train.py:6)" in verdict.text


def test_ranks_that_wait_for_each_other_in_two_groups_are_a_ring() -> None:
    groups = {"1": (0, 1), "2": (0, 1)}
    one = waiting(0, operation(1, group="1"), world=2, groups=groups)
    other = waiting(1, operation(1, group="2"), world=2, groups=groups)
    verdict = judged(one, other)
    assert verdict.certain
    assert verdict.text.endswith("they wait there for those that wait for them")


def test_a_receive_waits_for_its_sender() -> None:
    receive = operation(4, name="recv 1<-0", group="0 (p2p)", peer=0, sizes="[2]")
    sender = seen(0, world=2)
    assert judged(sender, waiting(1, receive, world=2)).ranks == (0,)


def test_where_all_have_entered_nobody_is_blamed() -> None:
    verdict = judged(*(waiting(rank) for rank in range(4)))
    assert (verdict.ranks, verdict.certain) == ((), False)
    assert "all have entered all_reduce #36 [4160]" in verdict.text


def test_where_nobody_waits_nothing_is_said() -> None:
    assert judge_stall([seen(rank) for rank in range(4)]) is None
    assert judge_stall([seen(0, world=1, recorded=False, last={})]) is None


def test_without_a_recorder_the_stacks_tell_and_it_is_said() -> None:
    views = [
        seen(rank, recorded=False, last={}, waits_by_stack=rank != 2, lines=IN_STEP[: 3 if rank != 2 else 2])
        for rank in range(4)
    ]
    verdict = judged(*views)
    assert (verdict.ranks, verdict.certain) == ((2,), False)
    assert verdict.text == (
        "NCCL004 rank 2 on algo-2 does not wait for others as ranks 0, 1, 3 wait at train.py:6; it is at "
        "train.py:3, process state S (by steps and stacks alone: there is no flight recorder's account)"
    )


def test_the_last_rank_that_does_not_end_and_answers_nobody_is_told_of() -> None:
    stuck = seen(3, answered=False, recorded=False, last={}, lines=())
    verdict = judged(ended(0), ended(1), ended(2), stuck)
    assert (verdict.code, verdict.ranks, verdict.certain) == ("DDP006", (3,), False)
    assert verdict.text.startswith("DDP006 rank 3 on algo-2 does not come to an end: all others have ended")


def test_the_last_rank_that_answers_or_works_is_left_alone() -> None:
    rest = [ended(rank) for rank in range(3)]
    assert judge_stall([*rest, seen(3, recorded=False, last={})]) is None
    assert judge_stall([*rest, seen(3, state="R", answered=False, recorded=False, last={})]) is None


def test_of_many_ranks_a_few_are_described() -> None:
    views = [waiting(rank, world=64) if rank % 2 else seen(rank, world=64) for rank in range(64)]
    verdict = judged(*views)
    assert len(verdict.text) < 900
    assert verdict.ranks == tuple(range(0, 64, 2))
    assert "of 29 more see the kept dumps" in verdict.text


def test_the_report_ends_with_the_lines_of_the_first_that_is_named() -> None:
    assert judged(waiting(0), waiting(1), seen(2), waiting(3)).report.splitlines()[1:] == [
        '  File "train.py", line 8, in <module>',
        '  File "train.py", line 2, in train',
    ]


def gave_up(rank: int, **more: Any) -> RankView:
    """A rank that waited for as long as its group lets it: PyTorch calls that completed."""
    called = operation(36, waits=False, seconds=600.0, **more)
    return waiting(rank, called, ended=True, failed=True, waits_by_stack=True)


def timed_out(*views: RankView) -> StallVerdict:
    verdict = judge_timeout(views, {"train.py": TRAIN}.get)
    assert verdict is not None
    return verdict


def test_a_save_for_which_the_others_waited_to_their_timeout_is_longer_than_that_allows() -> None:
    saving = seen(0, saving=True)
    verdict = timed_out(saving, gave_up(1), gave_up(2), seen(3, last={"0": 36}, waits_by_stack=True))
    assert (verdict.code, verdict.ranks) == ("DDP005", (0,))
    assert verdict.text == (
        "DDP005 rank 0 on algo-1 still saves at train.py:2, while ranks 1, 2, 3 wait for it longer than the "
        "process group's timeout of 600 s allows"
    )


def test_a_save_is_known_by_what_is_called_whatever_the_functions_name() -> None:
    code = "train(loader)\nwrite(path, model.state_dict())\n"
    lines = (UserLine("run.py", 2, "<module>"), UserLine("io.py", 8, "write"))
    for number, expected in ((2, "DDP005"), (1, "NCCL004")):
        at = (lines[0]._replace(number=number), lines[1])
        verdict = judge_timeout([seen(0, lines=at), gave_up(1), gave_up(2), gave_up(3)], {"run.py": code}.get)
        assert verdict is not None
        assert verdict.code == expected


@pytest.mark.parametrize("how", [{}, {"saving": True, "waits_by_stack": True}])
def test_who_is_elsewhere_or_waits_in_its_save_is_named_without_that(how: dict[str, Any]) -> None:
    verdict = timed_out(seen(0, **how), gave_up(1), gave_up(2), gave_up(3))
    assert (verdict.code, verdict.ranks) == ("NCCL004", (0,))
    assert "it is at train.py:2" in verdict.text


def test_of_those_that_gave_up_in_different_collectives_the_odd_one_is_named() -> None:
    verdict = timed_out(gave_up(0), gave_up(1), gave_up(2, name="all_gather"), gave_up(3))
    assert (verdict.code, verdict.ranks) == ("NCCL004", (2,))


def test_within_a_save_who_gathers_state_alone_saved_alone() -> None:
    barrier = {"name": "barrier", "sizes": "", "saving": True}
    gathers = gave_up(0, name="broadcast", sizes="[1]", saving=True, gathers=True)
    verdict = timed_out(gathers, gave_up(1, **barrier))
    assert (verdict.code, verdict.ranks) == ("CKPT003", (0,))
    assert verdict.text.endswith("saving needs rank 1 as well")


def test_who_does_not_come_to_the_others_save_is_named() -> None:
    save = {"name": "all_gather", "sizes": "[1]", "saving": True, "gathers": True}
    verdict = timed_out(gave_up(0, **save), gave_up(1, **save), gave_up(2))
    assert (verdict.code, verdict.ranks) == ("CKPT003", (2,))
    assert verdict.text.endswith("the others save, which needs all of them")


def verdict(rank: int, *, certain: bool = True, timeout: float | None = None) -> StallVerdict:
    return StallVerdict("NCCL004", (rank,), "NCCL004 ...", certain, timeout, (UserLine("a.py", 1, "f"),))


# Of ranks that have all ended.


def ended(rank: int, **more: Any) -> RankView:
    """A rank whose script came to its end."""
    return RankView(rank, "algo-1", GONE, 35, ended=True, **more)


def lost(rank: int, lines: tuple[UserLine, ...] = IN_STEP, **more: Any) -> RankView:
    """A rank that ended because it lost its connection to another one in these lines."""
    return ended(rank, failed=True, lines=lines, **more)


def ends(*views: RankView) -> StallVerdict | None:
    return judge_ends(views, {"train.py": TRAIN}.get)


def test_who_ended_well_while_the_others_were_in_a_step_had_fewer_batches() -> None:
    verdict = ends(lost(0), lost(1), ended(2), lost(3))
    assert verdict is not None
    assert verdict.text == (
        "DATA001 rank 2 on algo-1 has ended, and ranks 0, 1, 3 wait in vain at train.py:6, in the loop at "
        "train.py:2; steps made: rank 2 35; ranks 0, 1, 3 35, which have begun another"
    )


def test_what_the_first_rank_alone_does_without_a_backward_pass_is_no_step() -> None:
    verdict = ends(lost(0), ended(1), ended(2))
    assert verdict is not None
    assert (verdict.code, verdict.ranks) == ("NCCL004", (0,))
    in_step = ends(lost(0, waits_by_stack=True), ended(1), ended(2))
    assert in_step is not None
    assert (in_step.code, in_step.ranks) == ("DATA001", (1, 2))


def test_who_ended_well_while_the_others_were_behind_the_loop_left_something_out() -> None:
    verdict = ends(lost(0, BEHIND), ended(1), lost(2, BEHIND))
    assert verdict is not None
    assert verdict.text == "NCCL004 rank 1 on algo-1 has ended, and ranks 0, 2 wait in vain at train.py:9"


def test_of_those_that_failed_one_that_was_behind_the_loop_of_the_others_is_named() -> None:
    verdict = ends(lost(0), lost(1, BEHIND))
    assert verdict is not None
    assert (verdict.code, verdict.ranks) == ("DATA001", (1,))


@pytest.mark.parametrize(("condition", "code"), [("if True:", None), ("with timer:", "DATA001")])
def test_within_an_epoch_who_was_behind_the_loop_is_named_where_no_rank_passes_that_by(
    condition: str, code: str | None
) -> None:
    text = f"for epoch in epochs:\n  for batch in loader:\n    step()\n  {condition}\n    reduce()\n"
    inside, behind = ((UserLine("train.py", number, "<module>"),) for number in (3, 5))
    verdict = judge_ends([lost(0, inside), lost(1, behind)], {"train.py": text}.get)
    assert (verdict and (verdict.code, verdict.ranks)) == (code and (code, (1,)))


def test_where_all_were_at_the_same_line_nothing_is_known() -> None:
    assert ends(lost(0), lost(1)) is None
    assert ends(ended(0), ended(1)) is None


# What follows from a verdict.


def test_what_is_certain_ends_the_job_once_a_second_look_says_the_same() -> None:
    assert not ends_job(verdict(2), None, 0, 600)
    assert not ends_job(verdict(2), verdict(1), 0, 600)
    assert not ends_job(None, verdict(2), 0, 600)
    assert ends_job(verdict(2), verdict(2), 0, 600)


def test_what_may_pass_ends_it_when_the_groups_own_timeout_would() -> None:
    known, unknown = verdict(2, certain=False, timeout=1800), verdict(2, certain=False)
    assert not ends_job(known, known, 1799, 600)
    assert ends_job(known, known, 1800, 600)
    assert not ends_job(unknown, unknown, 599, 600)
    assert ends_job(unknown, unknown, 600, 600)


def test_a_verdict_travels_as_json() -> None:
    assert verdict_from_json(verdict_to_json(verdict(2))) == verdict(2)
    assert verdict_from_json(verdict_to_json(None)) is None


def beat(
    phase: int = LOADED, started: float = 0, steps: int = 9, last: float = 90, longest: float = 1
) -> Beat:
    return Beat(1, 45, phase, 0, 0, started, steps, last, longest)


def heard(limits: StallLimits, *pulses: Pulse, at: float = 0.0) -> Pulses:
    found = Pulses(limits)
    said = {
        f"algo-{n}": [1, pulse.since, pulse.begun, pulse.longest, pulse.watched]
        for n, pulse in enumerate(pulses)
    }
    found.hear(said, at)
    return found


def test_a_hosts_pulse_is_that_of_its_liveliest_rank_and_its_longest_pause() -> None:
    pulse = pulse_of([beat(last=90, longest=3), beat(last=95, longest=7)], 100)
    assert (pulse.since, pulse.begun, pulse.longest, pulse.watched) == (5, 100, 7, 2)


def test_ranks_that_have_no_torch_yet_or_have_ended_are_not_watched() -> None:
    assert pulse_of([beat(STARTED, steps=0), beat(ENDED)], 100).watched == 0
    assert heard(StallLimits(None, 10), Pulse(None, 999, 0, 0)).standstill(0) is None


def test_a_pause_of_a_minute_is_no_stall_and_a_longer_one_is() -> None:
    pulses = heard(StallLimits(None, 1800), Pulse(50, 500, 2, 8))
    early, late = pulses.standstill(9), pulses.standstill(11)
    assert early is not None and not early.over
    assert late is not None and late.over
    assert str(late) == "no rank has made a step for 61 s (limit 60 s)"


def test_where_pauses_were_long_five_of_them_are_none() -> None:
    pulses = heard(StallLimits(None, 1800), Pulse(50, 500, 40, 8))
    stands = pulses.standstill(149)
    assert stands is not None and (stands.seconds, stands.limit, stands.over) == (199, 200, False)


def test_the_files_own_limit_replaces_what_the_pauses_say() -> None:
    stands = heard(StallLimits(600, 1800), Pulse(50, 500, 400, 8)).standstill(551)
    assert stands is not None and (stands.limit, stands.over) == (600, True)


def test_one_host_that_steps_keeps_the_job_alive() -> None:
    stands = heard(StallLimits(None, 1800), Pulse(500, 900, 1, 8), Pulse(1, 900, 1, 8)).standstill(0)
    assert stands is not None and not stands.over


def test_before_the_first_step_its_own_limit_counts() -> None:
    pulses = heard(StallLimits(None, 1800), Pulse(None, 1700, 0, 8), Pulse(None, 1790, 0, 8))
    early, late = pulses.standstill(99), pulses.standstill(101)
    assert early is not None and not early.over
    assert late is not None and late.over
    assert str(late) == "no rank has made its first step for 1801 s (limit 1800 s)"


def test_a_host_that_says_nothing_new_gets_older() -> None:
    pulses = heard(StallLimits(None, 1800), Pulse(0, 100, 1, 8), at=0)
    pulses.hear({"algo-0": [1, 0, 100, 1, 8]}, 61)
    stands = pulses.standstill(61)
    assert stands is not None and stands.over
