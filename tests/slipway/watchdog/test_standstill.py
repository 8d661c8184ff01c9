"""When a job stands still."""

from __future__ import annotations

from slipway.ranks.heartbeat import ENDED, LOADED, STARTED, Beat
from slipway.watchdog.standstill import Pulse, Pulses, StallLimits, pulse_of


def beat(
    phase: int = LOADED, started: float = 0, steps: int = 9, last: float = 90, longest: float = 1
) -> Beat:
    return Beat(1, 45, phase, 0, started, steps, last, longest)


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
