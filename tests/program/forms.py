"""The same program in other forms, for tests: each function of FORMS changes a tree, and not what it does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

_LIBRARIES = ("torch", "dist", "DataLoader", "DistributedSampler", "DDP", "DistributedDataParallel", "FSDP")
"""How the names of calls begin that are made in another way."""

_HEADER = """
import functools
from tqdm.auto import tqdm as shown
"""


def _library_calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str, str]]:
    """The calls of libraries outside of classes' own code, with what is called and its last name."""
    bound = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and _is_stored(each)}
    for call in [each for each in ast.walk(tree) if isinstance(each, ast.Call)]:
        written = ast.unparse(call.func)
        first = written.partition(".")[0]
        if first in _LIBRARIES and first not in bound and written.replace(".", "").isidentifier():
            yield call, written, written.rpartition(".")[2]


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.Module):
            yield from (
                block for name in ("body", "orelse") if isinstance(block := getattr(node, name, 0), list)
            )


def _put_first(tree: ast.Module, text: str) -> None:
    """Put statements behind the imports."""
    imports = [place for place, each in enumerate(tree.body) if isinstance(each, ast.Import | ast.ImportFrom)]
    behind = imports[-1] + 1 if imports else 0
    tree.body[behind:behind] = ast.parse(text).body


def through_functions(tree: ast.Module) -> None:
    """`def call_barrier(*args, **kwargs): return dist.barrier(*args, **kwargs)`."""
    made: dict[str, str] = {}
    for call, written, last in _library_calls(tree):
        if made.setdefault(last, written) == written:
            call.func = ast.Name(f"call_{last}", ast.Load())
    for last, written in made.items():
        _put_first(tree, f"def call_{last}(*args, **kwargs):\n    return {written}(*args, **kwargs)")


def through_methods(tree: ast.Module) -> None:
    """The same as methods of an object."""
    made: dict[str, str] = {}
    for call, written, last in _library_calls(tree):
        if made.setdefault(last, written) == written:
            call.func = ast.Attribute(ast.Name("OPS", ast.Load()), last, ast.Load())
    methods = [
        f"    def {last}(self, *args, **kwargs):\n        return {written}(*args, **kwargs)\n"
        for last, written in made.items()
    ]
    _put_first(tree, "class Ops:\n    pass\n" + "".join(methods) + "OPS = Ops()")


def by_partial(tree: ast.Module) -> None:
    """`partial(DataLoader, batch_size=8)(data)`."""
    for call, _, _ in _library_calls(tree):
        if call.keywords and all(each.arg for each in call.keywords):
            partial = ast.Attribute(ast.Name("functools", ast.Load()), "partial", ast.Load())
            applied = ast.Call(partial, [call.func], call.keywords)
            call.func, call.keywords = applied, []


def by_getattr(tree: ast.Module) -> None:
    """`getattr(dist, "barrier")()`."""
    for call, _, last in _library_calls(tree):
        if isinstance(call.func, ast.Attribute):
            read = [call.func.value, ast.Constant(last)]
            call.func = ast.Call(ast.Name("getattr", ast.Load()), read, [])


def by_growing_options(tree: ast.Module) -> None:
    """`options = {}`, then `options["batch_size"] = 8`, then `DataLoader(data, **options)`."""
    for number, block in enumerate(_blocks(tree)):
        for statement in [each for each in block if isinstance(each, ast.Expr | ast.Assign | ast.Return)]:
            call = statement.value
            if isinstance(call, ast.Call) and call.keywords and all(each.arg for each in call.keywords):
                name = f"options_{number}_{block.index(statement)}"
                given = [f"{name}[{each.arg!r}] = {ast.unparse(each.value)}" for each in call.keywords]
                block[block.index(statement) : block.index(statement)] = ast.parse(
                    "\n".join([f"{name} = {{}}", *given])
                ).body
                call.keywords = [ast.keyword(None, ast.Name(name, ast.Load()))]


def by_next(tree: ast.Module) -> None:
    """`while True: try: batch = next(batches) except StopIteration: break`."""
    for number, block in enumerate(_blocks(tree)):
        for loop in [each for each in block if isinstance(each, ast.For) and not each.orelse]:
            if isinstance(loop.iter, ast.Name | ast.Attribute):
                name = f"stream_{number}_{block.index(loop)}"
                begun, turns = ast.parse(
                    f"{name} = iter({ast.unparse(loop.iter)})\nwhile True:\n    try:\n"
                    f"        {ast.unparse(loop.target)} = next({name})\n"
                    "    except StopIteration:\n        break"
                ).body
                assert isinstance(turns, ast.While)
                turns.body += loop.body
                block[block.index(loop) : block.index(loop) + 1] = [begun, turns]


def over_a_name(tree: ast.Module) -> None:
    """`turns = range(9)`, then `for epoch in turns:`."""
    for number, block in enumerate(_blocks(tree)):
        for loop in [each for each in block if isinstance(each, ast.For)]:
            name = f"turns_{number}_{block.index(loop)}"
            block.insert(block.index(loop), ast.parse(f"{name} = {ast.unparse(loop.iter)}").body[0])
            loop.iter = ast.Name(name, ast.Load())


def with_bars(tree: ast.Module) -> None:
    """`for batch in tqdm(loader):`."""
    for loop in [each for each in ast.walk(tree) if isinstance(each, ast.For)]:
        loop.iter = ast.Call(ast.Name("shown", ast.Load()), [loop.iter], [])


def with_finally(tree: ast.Module) -> None:
    """The body of each function in `try: ... finally: print()`."""
    for function in [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]:
        if not any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(function)):
            function.body = [ast.Try(function.body, [], [], ast.parse("print()").body)]


FORMS: tuple[Callable[[ast.Module], None], ...] = (
    through_functions,
    through_methods,
    by_partial,
    by_getattr,
    by_growing_options,
    by_next,
    over_a_name,
    with_bars,
    with_finally,
)


def in_form(files: Mapping[str, str], form: Callable[[ast.Module], None]) -> dict[str, str]:
    """The files of a program in another form; what is not Python stays."""
    found = dict(files)
    for name, text in files.items():
        if name.endswith(".py"):
            tree = ast.parse(text)
            _put_first(tree, _HEADER)
            form(tree)
            found[name] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return found
