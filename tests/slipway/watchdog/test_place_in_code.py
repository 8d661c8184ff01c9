"""What the text of the user's code tells of a rank's place."""

from __future__ import annotations

import textwrap

import pytest

from slipway.watchdog.place_in_code import all_come_to, is_saving_by_text
from slipway.watchdog.rank_views import UserLine


def places(code: str) -> tuple[dict[str, str], list[UserLine], list[UserLine]]:
    """The code's text, and the stacks whose lines end with `# here` and `# there`, each from `main` on."""
    text = textwrap.dedent(code).lstrip("\n")
    stacks: dict[str, list[UserLine]] = {"here": [], "there": []}
    function = "<module>"
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("def "):
            function = line[4:].partition("(")[0]
        for name, stack in stacks.items():
            if name in line.partition("#")[2].split():
                stack.append(UserLine("train.py", number, function))
    order = ["main", "reduce"]
    return {"train.py": text}, *(
        sorted(stack, key=lambda line: order.index(line.function)) for stack in stacks.values()
    )


EPOCHS = """
def main():
    for epoch in range(3):
        for batch in loader:
            loss.backward()  # here
        {behind}
"""


@pytest.mark.parametrize(
    "code",
    [
        EPOCHS.format(behind="reduce()  # there"),
        EPOCHS.format(behind="with torch.no_grad():\n            reduce()  # there"),
        EPOCHS.replace(
            "loss.backward()  # here", "if done:\n                break\n            step()  # here"
        ).format(behind="reduce()  # there"),
        EPOCHS.format(behind="reduce()  # there")
        + "\ndef reduce():\n    if rank == 0:\n        print(1)\n    all_reduce()  # there\n",
        "def main():\n    for batch in loader:\n        step()  # here\n    barrier()  # there\n",
    ],
    ids=["behind the loop", "in a context", "a loop that may be left early", "in a function", "no epochs"],
)
def test_what_stands_behind_a_loop_without_a_condition_all_ranks_come_to(code: str) -> None:
    texts, here, there = places(code)
    assert all_come_to(there, here, texts.get)


@pytest.mark.parametrize(
    "code",
    [
        EPOCHS.format(behind="if rank == 0:\n            reduce()  # there"),
        EPOCHS.format(behind="rank == 0 and reduce()  # there"),
        EPOCHS.format(behind="if skip:\n            continue\n        reduce()  # there"),
        EPOCHS.format(behind="for part in parts:\n            reduce()  # there"),
        EPOCHS.format(behind="reduce()  # there")
        + "\ndef reduce():\n    if rank:\n        return\n    all_reduce()  # there\n",
        "def main(:\n    step()  # here\n    barrier()  # there\n",
    ],
    ids=["a condition", "a short one", "a way past it", "a loop", "a way out of the function", "no Python"],
)
def test_what_a_rank_may_pass_by_they_may_not(code: str) -> None:
    texts, here, there = places(code)
    assert not all_come_to(there, here, texts.get)


def test_two_ranks_at_one_line_are_behind_nothing() -> None:
    texts, here, _ = places(EPOCHS.format(behind="pass"))
    assert not all_come_to(here, here, texts.get)
    assert not all_come_to([UserLine("other.py", 3, "main")], here, texts.get)


@pytest.mark.parametrize(
    ("statement", "saves"),
    [
        ("torch.save(state, path)", True),
        ("model.save_pretrained(path)", True),
        ('write_slowly(path, {"model": model.state_dict()})', True),
        ("write(\n    path,\n    get_model_state_dict(model),\n)", True),
        ("model.load_state_dict(torch.load(path))", False),
        ("read_slowly(path)", False),
        ("for batch in loader:\n    step()\nsave(model)", False),
    ],
)
def test_who_is_in_a_call_that_saves_or_is_given_a_state_saves(statement: str, saves: bool) -> None:
    lines = [UserLine("train.py", 1, "<module>"), UserLine("io.py", 7, "flush")]
    assert is_saving_by_text(lines, {"train.py": statement}.get) is saves
