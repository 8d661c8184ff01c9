"""Defects of collectives, of loops that ranks leave, and of gradients."""

from __future__ import annotations

import ast
import re

from tools.benchmarks.seeding.site import Site
from tools.benchmarks.seeding.whole import WRAPPERS, Places, Whole, is_method, kind, moved

DEADLOCK = ("DDP004", "CKPT003")


@kind("guard around a collective", *DEADLOCK)
def guarded_collective(whole: Whole) -> Places:
    """A guard around a collective that every rank ran."""
    for site, statement, _ in whole.collectives():
        guard = site.guard(statement)
        if guard is not None:
            text = site.put_under([statement], [f"if {guard}:"])
            yield site, text, moved(site.lines_of(statement), 1)


@kind("guard around a call that runs a collective", *DEADLOCK)
def guarded_call(whole: Whole) -> Places:
    """A guard around a call of a function that runs a collective in any case."""
    for site, call, statement in whole.called():
        if whole.is_collective(site, call) or not isinstance(call.func, ast.Name):
            continue
        guard = site.guard(statement)
        if guard and whole.surely_runs_collective(call.func.id) and whole.on_every_rank(site, call):
            text = site.put_under([statement], [f"if {guard}:"])
            yield site, text, moved(site.lines_of(statement), 1)


@kind("return of other ranks before a collective", *DEADLOCK)
def early_return(whole: Whole) -> Places:
    """The other ranks return before a collective."""
    for site, statement, _ in whole.collectives():
        guard = site.guard(statement)
        if guard is not None and site.function(statement) is not None:
            text = site.with_before(statement, [f"if not ({guard}):", "    return"])
            yield site, text, range(statement.lineno, statement.lineno + 2)


@kind("barrier in an except", "DDP008")
def barrier_in_except(whole: Whole) -> Places:
    """A save, load or step whose exception leads to a barrier."""
    for site, call, statement in whole.called(ast.Expr | ast.Assign):
        dist = site.alias("torch.distributed")
        if dist and site.dotted(call.func) in _MAY_FAIL and whole.on_every_rank(site, call):
            tails = ["except Exception as error:", "    print(error)", f"    {dist}.barrier()"]
            text = site.put_under([statement], ["try:"], tails)
            yield site, text, {site.lines_of(statement).stop + 3}


_MAY_FAIL = (
    *("torch.load", "torch.save", "torch.cuda.set_device", "torch.distributed.all_reduce"),
    *("torch.distributed.broadcast", "torch.distributed.barrier"),
)


@kind("break of one rank in a training loop", "DDP004", "DDP007")
def break_by_rank(whole: Whole) -> Places:
    """One rank leaves the training loop by what it alone sees."""
    for site, loop, backward in whole.training_loops():
        last, loss = loop.body[-1], _loss(backward)
        guard, indent = site.guard(last), site.indent(last)
        if guard is None or loss is None or isinstance(last, ast.If | ast.For | ast.With):
            continue
        if indent is not None and last.end_lineno is not None:
            lines, at = site.text.splitlines(keepends=True), last.end_lineno
            added = [f"{indent}if {guard} and {loss}.item() < 0.01:\n", f"{indent}    break\n"]
            yield site, "".join([*lines[:at], *added, *lines[at:]]), {at + 1, at + 2}


@kind("step skipped by a local NaN", "DDP007")
def skip_by_nan(whole: Whole) -> Places:
    """A rank whose loss is NaN skips the step."""
    for site, loop, backward in whole.training_loops():
        loss = _loss(backward)
        torch = site.alias("torch")
        statement = next((each for each in loop.body if backward in ast.walk(each)), None)
        if loss is None or torch is None or statement is not backward:
            continue
        text = site.with_before(backward, [f"if {torch}.isnan({loss}):", "    continue"])
        lines = range(backward.lineno, backward.lineno + 2)
        yield site, text, lines


def _loss(backward: ast.Expr) -> str | None:
    call = backward.value
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    loss = call.args[0] if len(call.args) == 1 else call.func.value  # `accelerator.backward(loss)`.
    if isinstance(loss, ast.Call) and ast.unparse(loss.func).endswith(".scale") and loss.args:
        loss = loss.args[0]
    return loss.id if isinstance(loss, ast.Name) else None


@kind("clip while scaled", "DDP007")
def clip_while_scaled(whole: Whole) -> Places:
    """The unscale_ before a clip removed."""
    for site, call, statement in whole.called():
        function = site.function(call)
        if not is_method(call, "unscale_") or function is None or function not in whole.reached:
            continue
        if sum(getattr(each, "attr", "") == "unscale_" for each in ast.walk(function)) > 1:
            continue
        clips = [
            each
            for each in site.calls
            if re.search(r"clip_grad", site.source(each.func)) and site.function(each) is function
        ]
        lines = {line for each in clips for line in site.lines_of(each) if each.lineno > call.lineno}
        if lines:
            yield site, site.replaced([(site.span(statement), "pass")]), lines


@kind("clip while scaled", "DDP007")
def clip_put_before_step(whole: Whole) -> Places:
    """A clip put between the scaled backward and the scaler's step."""
    for site, loop, backward in whole.training_loops():
        match = re.fullmatch(r"(\w+)\.scale\(.*\)\.backward\(\)", site.source(backward))
        model, torch = _model_of(site, loop, whole), site.alias("torch")
        if not (match and model and torch) or re.search(r"clip_grad|unscale_", site.source(loop)):
            continue
        for statement in site.block(backward):
            if site.source(statement).startswith(f"{match[1]}.step("):
                clip = f"{torch}.nn.utils.clip_grad_norm_({model}.parameters(), 1.0)"
                yield site, site.with_before(statement, [clip]), {statement.lineno}


@kind("step inside no_sync", "DDP007")
def step_in_no_sync(whole: Whole) -> Places:
    """Forward, backward and step under no_sync."""
    for site, loop, backward in whole.training_loops():
        model, block = _model_of(site, loop, whole), site.block(backward)
        if model is None or "no_sync" in site.source(loop):
            continue
        called = re.compile(rf"\b{re.escape(model)}\(")
        forward = [n for n, each in enumerate(block) if called.search(site.source(each))]
        steps = [n for n, each in enumerate(block) if _STEP.match(site.source(each))]
        if forward and steps and forward[0] <= block.index(backward) <= steps[0]:
            text = site.put_under(block[forward[0] : steps[0] + 1], [f"with {model}.no_sync():"])
            yield site, text, moved(site.lines_of(block[steps[0]]), 1)


_STEP = re.compile(r"(\w*optim\w*|scaler|opt)\.step\(")


def _model_of(site: Site, loop: ast.For, whole: Whole) -> str | None:
    """The name that is wrapped in DDP and called in a loop."""
    for name in ("self.model", "ddp_model", "model", "net", "rank_model"):
        wrapped = re.search(
            rf"(?<![\w.]){re.escape(name)}\s*(:[^=\n]+)?=\s*[\w.]*(DistributedDataParallel|DDP)\(", whole.text
        )
        if wrapped and re.search(rf"(?<![\w.]){re.escape(name)}\(", site.source(loop)):
            return name
    return None


@kind("model not wrapped", "DDP009")
def wrapper_removed(whole: Whole) -> Places:
    """The model is no longer wrapped, and its gradients stay where they are."""
    if "DistributedSampler(" not in whole.text or len(WRAPPERS.findall(whole.text)) != 1:
        return
    backward = [(site, statement) for site, _, statement in whole.training_loops()]
    for site in whole.sites:
        for call in site.calls_of("torch.nn.parallel.DistributedDataParallel"):
            if not call.args or len(backward) != 1 or backward[0][0] is not site:
                continue
            if not whole.on_every_rank(site, call) or re.search(r"\.module\b|no_sync", whole.text):
                continue
            text = site.replaced([(site.span(call), site.source(call.args[0]))])
            by = text.count("\n") - site.text.count("\n")
            lines = moved(site.lines_of(backward[0][1]), by if backward[0][1].lineno > call.lineno else 0)
            yield site, text, lines
