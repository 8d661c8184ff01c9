"""What takes long is said."""

from __future__ import annotations

from threading import Event

import pytest

from launcher.session.long_step import announced


def test_a_long_step_is_announced_while_it_lasts() -> None:
    told, texts = Event(), []

    def tell(text: str) -> None:
        texts.append(text)
        told.set()

    with announced("reading", tell, after=0):
        assert told.wait(30)
    assert texts == ["reading"]


@pytest.mark.parametrize("error", [None, ValueError])
def test_a_quick_step_says_nothing_whether_it_fails_or_not(error: type[Exception] | None) -> None:
    texts: list[str] = []
    step = announced("reading", texts.append, after=0.2)
    try:
        with step:
            if error:
                raise error
    except ValueError:
        pass
    # A timer that was not cancelled is a thread that would still speak.
    import threading

    for thread in [each for each in threading.enumerate() if isinstance(each, threading.Timer)]:
        thread.join(30)
    assert texts == []
