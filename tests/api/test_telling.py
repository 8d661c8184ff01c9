"""What a notebook is told while something takes long."""

from __future__ import annotations

from launcher.api.telling import Telling
from launcher.backends.interface import Progress


def test_a_quick_launch_tells_its_news_alone() -> None:
    told: list[str] = []
    telling = Telling(lambda: 0.0, told.append)
    telling.progress(1, 3, "ec2")
    telling.submission(Progress("uploading source.tar.gz", 1, 2))
    telling.submission(Progress("submitted digits-1"))
    assert told == ["submitted digits-1"]


def test_a_long_one_tells_how_far_it_is_now_and_then() -> None:
    told: list[str] = []
    seconds = iter([0.0, 1.9, 2.0, 2.0, 3.0, 12.0, 12.0])
    telling = Telling(lambda: next(seconds), told.append)
    for answered in range(4):
        telling.progress(answered, 9, "ec2")
    assert told == [
        "looking at the account: 1 of 9 answers, waiting for ec2",
        "looking at the account: 3 of 9 answers, waiting for ec2",
    ]
