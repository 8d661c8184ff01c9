"""What a call into this package raises."""

from __future__ import annotations

import pickle
import traceback

import slipway
from slipway.errors import SlipwayError


def test_a_traceback_begins_with_the_public_name_and_the_code() -> None:
    (line,) = traceback.format_exception_only(SlipwayError("NUM001", "the loss is nan"))
    assert line == "slipway.SlipwayError: NUM001 the loss is nan\n"


def test_an_error_comes_through_a_workers_pipe() -> None:
    error = pickle.loads(pickle.dumps(SlipwayError("NUM001", "the loss is nan")))
    assert (error.code, str(error)) == ("NUM001", "NUM001 the loss is nan")


def test_what_is_offered_is_there() -> None:
    for name in ("SlipwayError", "even_batches", "guard", "sorted_inputs"):
        assert name in dir(slipway)
        assert getattr(slipway, name).__name__ == name
