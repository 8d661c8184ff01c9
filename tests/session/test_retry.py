"""The cause decides whether a job is tried again, and how far its attempts came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.failure_modes.model import Retry
from launcher.session.retry import (
    ATTEMPTS_WITHOUT_PROGRESS,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    Attempt,
    GiveUp,
    TryAgain,
    after_failure,
)

P4D, P5, G5 = "ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.g5.48xlarge"


def attempt(retry: Retry = Retry.SAME, step: float | None = None, instance_type: str = P4D) -> Attempt:
    return Attempt("job", instance_type, retry, step)


def next_of(*attempts: Attempt, max_retries: int = 3, types: tuple[str, ...] = (P4D,)) -> TryAgain | GiveUp:
    return after_failure(attempts, max_retries=max_retries, instance_types=types)


def test_a_permanent_cause_is_not_tried_again() -> None:
    assert next_of(attempt(Retry.NEVER)) == GiveUp("the cause does not pass by itself")


def test_without_a_budget_nothing_is_tried_again() -> None:
    assert isinstance(next_of(attempt(), max_retries=0), GiveUp)


@pytest.mark.parametrize("retry", [Retry.SAME, Retry.OTHER_HOSTS])
def test_a_passing_cause_is_tried_again_at_once_on_the_same_type(retry: Retry) -> None:
    again = next_of(attempt(retry))
    assert isinstance(again, TryAgain)
    assert (again.instance_type, again.wait_seconds) == (P4D, 0.0)


@pytest.mark.parametrize(
    ("failed", "checked"),
    [
        (Attempt("job", P4D, Retry.OTHER_HOSTS, None, "HW001"), True),
        (Attempt("job", P4D, Retry.OTHER_HOSTS), True),
        (Attempt("job", P4D, Retry.SAME, None, "EFA007"), True),
        (Attempt("job", P4D, Retry.SAME, None, "NCCL007"), True),
        (Attempt("job", P4D, Retry.SAME, None, "NCCL008"), False),
        (Attempt("job", P4D, Retry.LATER, None, "CAP001"), False),
        (Attempt("job", P4D, Retry.SAME), False),
    ],
)
def test_after_a_fault_of_the_hosts_the_next_ones_are_tested_first(failed: Attempt, checked: bool) -> None:
    again = next_of(failed)
    assert isinstance(again, TryAgain)
    assert again.infra_check is checked
    assert ("health check" in again.why) is checked


def test_hosts_are_tested_in_all_attempts_after_one_that_they_failed() -> None:
    later = next_of(attempt(Retry.OTHER_HOSTS, 1.0), attempt(Retry.LATER))
    assert isinstance(later, TryAgain)
    assert later.infra_check


def test_hosts_are_not_tested_where_that_was_declined() -> None:
    again = after_failure(
        [attempt(Retry.OTHER_HOSTS)], max_retries=1, instance_types=[P4D], may_check_hosts=False
    )
    assert again == TryAgain(P4D, 0.0, "on other hosts")


def test_attempts_without_steps_use_up_the_budget() -> None:
    assert isinstance(next_of(attempt(step=None), max_retries=1), TryAgain)
    failed = (attempt(Retry.LATER), attempt(Retry.LATER))
    assert next_of(*failed, max_retries=1) == GiveUp("limits.max_retries (1) is used up")


def test_an_attempt_that_got_further_does_not_use_up_the_budget() -> None:
    steps = [attempt(step=step) for step in range(100, 1100, 100)]
    assert isinstance(next_of(*steps, max_retries=1), TryAgain)


def test_two_attempts_in_a_row_without_progress_end_it() -> None:
    came = [attempt(step=500), attempt(step=500)]
    assert isinstance(next_of(*came, max_retries=30), TryAgain)
    assert next_of(*came, attempt(step=480), max_retries=30) == GiveUp("2 attempts in a row got no further")


def test_progress_after_an_attempt_without_starts_the_count_anew() -> None:
    steps = [attempt(step=step) for step in (500, 500, 600, 600)]
    assert isinstance(next_of(*steps, max_retries=30), TryAgain)


def test_waiting_for_capacity_is_no_lack_of_progress() -> None:
    waited = [attempt(step=500), attempt(Retry.LATER), attempt(Retry.LATER), attempt(step=500)]
    assert isinstance(next_of(*waited, max_retries=30), TryAgain)


def test_without_capacity_the_next_instance_type_comes_at_once() -> None:
    again = next_of(attempt(Retry.LATER), types=(P4D, P5))
    assert again == TryAgain(P5, 0.0, f"there is no capacity for {P4D}")


def test_after_the_last_instance_type_the_first_is_waited_for() -> None:
    tried = (attempt(Retry.LATER), attempt(Retry.LATER, instance_type=P5))
    again = next_of(*tried, types=(P4D, P5))
    assert again == TryAgain(P4D, FIRST_WAIT_SECONDS, f"there is no capacity for {P4D} and {P5}")


@pytest.mark.parametrize(("rounds", "wait"), [(1, 300), (2, 600), (3, 1200), (4, 2400), (5, 3600), (9, 3600)])
def test_the_wait_doubles_up_to_an_hour(rounds: int, wait: float) -> None:
    again = next_of(*[attempt(Retry.LATER)] * rounds, max_retries=30)
    assert isinstance(again, TryAgain) and again.wait_seconds == wait


def test_an_attempt_with_hosts_starts_the_wait_anew() -> None:
    tried = [attempt(Retry.LATER)] * 4 + [attempt(step=10), attempt(Retry.LATER)]
    again = next_of(*tried, max_retries=30)
    assert isinstance(again, TryAgain) and again.wait_seconds == FIRST_WAIT_SECONDS


attempts = st.lists(
    st.builds(
        Attempt,
        name=st.just("job"),
        instance_type=st.sampled_from([P4D, P5]),
        retry=st.sampled_from(list(Retry)),
        step=st.none() | st.integers(0, 5).map(float),
    ),
    min_size=1,
    max_size=12,
)


@given(attempts=attempts, max_retries=st.integers(0, 5))
def test_retries_are_bounded_and_keep_to_the_types_that_are_allowed(
    attempts: list[Attempt], max_retries: int
) -> None:
    again = after_failure(attempts, max_retries=max_retries, instance_types=[P4D, P5])
    if isinstance(again, TryAgain):
        assert again.instance_type in (P4D, P5)
        assert 0 <= again.wait_seconds <= LONGEST_WAIT_SECONDS
        assert attempts[-1].retry is not Retry.NEVER
        # Steps 0 to 5 allow six advances; beyond these only the budget is left.
        assert len(attempts) <= max_retries + 6
        ran = [each.step for each in attempts if each.retry is not Retry.LATER]
        assert not (len(ran) > ATTEMPTS_WITHOUT_PROGRESS and set(ran) == {None})
