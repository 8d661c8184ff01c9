"""Who calls a function, and which calls may be of objects or of functions under other names."""

from __future__ import annotations

import ast

from launcher.program.index import FunctionNode
from launcher.program.program import Program
from tests.program.conftest import ReadProgram


def function_of(program: Program, name: str) -> FunctionNode:
    (found,) = [each for file in program.files for each in file.functions if each.name == name]
    assert isinstance(found, FunctionNode)
    return found


def test_calls_that_were_asked_for_out_of_reach_are_found_when_asked_for_again(program: ReadProgram) -> None:
    read = program("import helper\nhelper.start(0)\n", **{"helper.py": "def start(number): return number"})
    callers = read.evaluation.callers
    read.evaluation._depth = 40  # As where an expression lies as deep as is looked.
    assert callers.call_sites(function_of(read, "start")) is None
    read.evaluation._depth = 0
    (site,) = callers.call_sites(function_of(read, "start")) or ()
    assert ast.unparse(site.call) == "helper.start(0)"


def test_the_calls_of_what_may_be_an_object_are_those_of_names_with_values(program: ReadProgram) -> None:
    text = """
        from helper import made, plain

        class Holder:
            hook = None

            def __init__(self, given):
                self.given = given

            def use(self):
                self.given()
                self.hook()
                self.use()

        def act(action):
            max = 1
            action()
            print(max)

        def largest(rows):
            return max(rows)

        made()
        plain()
        act(largest)
        [largest][0]()
    """
    helper = "made = print\ndef plain(): return 1\n"
    found = program(text, **{"helper.py": helper}).evaluation.callers.calls_of_what_is_kept
    called = {ast.unparse(each) for each in found}
    assert called == {"made()", "self.given()", "self.hook()", "action()", "[largest][0]()"}
