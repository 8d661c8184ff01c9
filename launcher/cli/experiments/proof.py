"""`launch proof`: what the network between hosts gives of what it can give, and which host is slow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.interaction import (
    EXIT_INTERRUPTED,
    AllowEnvOption,
    IgnoreOption,
    OutputFormat,
    OutputOption,
    RunIdOption,
    SetOption,
    choose_lines,
    console,
    console_for_output,
    plan_offline,
)
from launcher.cli.launch import (
    LocalRunOptions,
    changes_for_slurm,
    follow_launch,
    get_ready,
    make_launch_of,
    make_local_backend,
    refuse,
    run_here,
)
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Refusal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from launcher.backends.interface import Backend, LogLine
    from launcher.cli.job_view import Choose
    from launcher.experiments.fabric_proof import ProofVerdict, StorageRates
    from launcher.jobs.load_job import LoadedJob
    from launcher.session.runs.diagnose_job import Outcome
    from launcher.session.runs.follow_job import LineChoice


def proof(
    job_file: Annotated[
        Path | None, Parameter(help="A job file whose hosts, image, cluster and settings are measured.")
    ] = None,
    /,
    *,
    cluster: Annotated[str | None, Parameter(help="The cluster.")] = None,
    type_: Annotated[str | None, Parameter(name="--type", help="The hosts' instance type.")] = None,
    hosts: Annotated[
        int | None,
        Parameter(help="How many. Default: the job file's, else two; of three the slow one shows."),
    ] = None,
    local: Annotated[
        bool, Parameter(negative="", help="On this machine, to try it: its hosts are processes here.")
    ] = False,
    slurm: Annotated[
        list[str] | None,
        Parameter(negative="", consume_multiple=(0, 1), help="On Slurm; in a PARTITION where one is given."),
    ] = None,
    gbps: Annotated[
        float | None,
        Parameter(help="What the interfaces of a host send together, in Gbit/s. Default: the type's EFA."),
    ] = None,
    at_least: Annotated[float, Parameter(help="The share of the limit that is enough.")] = 0.5,
    up_to: Annotated[
        str | None,
        Parameter(help="The largest all-reduce. Default: 4GiB on GPUs, 64MiB on CPUs."),
    ] = None,
    pairs: Annotated[
        bool, Parameter(negative="", help="Measure pairs of hosts also where all together are fast enough.")
    ] = False,
    lustre: Annotated[
        str | None, Parameter(help="Measure the cluster's Lustre as well, in this folder of it, such as /.")
    ] = None,
    storage: Annotated[
        str | None,
        Parameter(help="What each host writes and reads. Default: 1GiB, here 64MiB; 0 measures no storage."),
    ] = None,
    processes: Annotated[
        int | None, Parameter(help="Processes on each host. Default: one for each GPU, with --local 1.")
    ] = None,
    python: Annotated[str | None, Parameter(help="With --local, the Python that runs it.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Go on without asking.")] = False,
    run_id: RunIdOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Measure what the network between hosts gives, and say which host is slow where it is too little."""
    from launcher.rules.job.subject import RunPlace
    from launcher.session.prepare_plan import JobSource, read_job
    from launcher.session.runs.prove_fabric import ProofRequest, write_proof
    from launcher.source.packaging import scratch_folder

    if local and slurm is not None:
        raise Refusal("--local measures here, and --slurm there.", "Leave out one of the two.")
    place = RunPlace.LOCAL if local else RunPlace.SLURM if slurm is not None else RunPlace.SAGEMAKER
    changes = [*(set_ or ()), *changes_for_slurm(slurm)]
    wanted = ProofRequest(
        place,
        None if job_file is None else JobSource(job_file, allow_env=allow_env),
        cluster,
        type_,
        hosts,
        processes,
        gbps,
        at_least,
        None if up_to is None else _bytes("--up-to", up_to),
        pairs,
        lustre,
        None if storage is None else _bytes("--storage", storage),
        changes,
        allow_env,
    )
    here = LocalRunOptions({}, python, None, yes, allow_env)
    with scratch_folder("proof-") as folder:
        loaded = read_job(write_proof(wanted, folder))
        with loaded.substitutions.refusals():
            # One process for each interface, GPU or host: which it is belongs to the proof.
            accepted = [*(ignore or ()), distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.code]
            if local:
                return _prove_here(loaded, accepted, here, output)
            return _prove_there(loaded, accepted, here, run_id, output)


def _bytes(option: str, text: str) -> int:
    from launcher.text.values import parse_size

    try:
        return int(parse_size(text))
    except ValueError as error:
        raise Refusal(f"{option} {text}: {error}.", "Write it as 64MiB or 4GiB.") from error


def _prove_here(loaded: LoadedJob, ignore: Sequence[str], here: LocalRunOptions, output: OutputFormat) -> int:
    from launcher.backends.local.python import this_machine

    plan = plan_offline(loaded, ignore, here=True)
    if plan.refused:
        return refuse(plan, output)
    choose = partial(_choose, partial(choose_lines, plan.view, None, None))
    outcome = run_here(plan, here, output, choose, {})
    if isinstance(outcome, int):
        return outcome
    # What has ended is read again, as a process that is closed tells nothing any more.
    machine = this_machine(here.python, os.environ)
    return _conclude(make_local_backend(machine, {}, here.allow_env), outcome, output)


def _prove_there(
    loaded: LoadedJob, ignore: Sequence[str], here: LocalRunOptions, run_id: str | None, output: OutputFormat
) -> int:
    from launcher.aws.clients import Clients
    from launcher.cli.job_view import AttemptsView
    from launcher.session.submit_job import run_id_of

    run = run_id_of(run_id, os.environ)
    launching, check = make_launch_of(loaded, ignore, Clients(), run, here.allow_env)
    ready = get_ready(launching, here.yes, output, (None, None))
    if isinstance(ready, int):
        return ready
    view = AttemptsView(console_for_output(output))
    ready = replace(ready, choose=partial(_choose, ready.choose))
    outcome = follow_launch(launching, ready, output, check, view)
    if outcome is None:
        return EXIT_INTERRUPTED
    return _conclude(ready.submission.backend, outcome, output)


def _choose(choose: Choose, tell: Callable[[], None]) -> LineChoice | None:
    choice = choose(tell)
    return None if choice is None else _WithoutRecord(choice)


class _WithoutRecord:
    """Shows what a choice of lines shows, but for the record, which is told as tables at the end."""

    def __init__(self, choice: LineChoice) -> None:
        self._choice = choice

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """Those to show now, in their order."""
        return self._without(self._choice.keep(lines))

    def rest(self) -> list[LogLine]:
        """Those held back so far, at the job's end."""
        return self._without(self._choice.rest())

    def _without(self, lines: Sequence[LogLine]) -> list[LogLine]:
        from launcher.experiments.fabric_proof import RECORD_MARK

        return [line for line in lines if RECORD_MARK not in line.text]


def _conclude(backend: Backend, outcome: Outcome, output: OutputFormat) -> int:
    """Print how the job ended, and what it says of the network; the exit code, 1 where it falls short."""
    from launcher.cli.job_view import conclude
    from launcher.session.runs.prove_fabric import judge_proof

    if not outcome.succeeded:
        return conclude(outcome, output, {"proof": None})
    verdict = judge_proof(backend, outcome.status)
    code = conclude(outcome, output, {"proof": verdict.to_json()})
    if output is OutputFormat.TEXT:
        show_verdict(console(), verdict)
    return code or (0 if verdict.is_good else 1)


# A verdict on the terminal: the curve, pairs of hosts, storage, what others reached, and what follows.


_BAR = 24
_MOST_HOSTS = 16
_MOST_PUBLISHED = 3
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_verdict(screen: Console, verdict: ProofVerdict) -> None:
    """Print what a proof has measured, and what that says."""
    from rich.text import Text

    tables = [_curve(verdict), _pairs(verdict), _storage(verdict.record.storage), _published(verdict)]
    for table in tables:
        if table is not None and table.rows:
            screen.print("")
            screen.print(table)
    screen.print("")
    style = "bold" if verdict.reached is None else "bold green" if verdict.is_good else "bold red"
    for number, sentence in enumerate(verdict.says):
        screen.print(Text(sentence, style if number == 0 else ""), soft_wrap=True)


def _grid(*heads: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for head in heads:
        table.add_column(justify="left" if head in ("", "PLACE", "HOST", "PUBLISHED") else "right")
    table.add_row(*(Text(head, "dim") for head in heads))
    return table


def _curve(verdict: ProofVerdict) -> Table:
    from rich.text import Text

    from launcher.experiments.fabric_proof import in_gb, in_percent
    from launcher.text.values import memory_in_words

    table = _grid("ALL-REDUCE", "TIME", "BUS", "OF LIMIT", "")
    best = verdict.record.best
    whole = verdict.limit or (best.busbw if best else 0.0)
    for point in verdict.record.curve:
        share = point.busbw / whole if whole else 0.0
        table.add_row(
            memory_in_words(point.bytes),
            f"{1000 * point.seconds:,.2f} ms",
            in_gb(point.busbw),
            "" if verdict.limit is None else in_percent(share),
            Text(bar(share), "green" if verdict.reached is not False else "red"),
        )
    return table


def bar(share: float) -> str:
    """A share of the limit as a bar of blocks, whole at 1."""
    eighths = round(8 * _BAR * min(max(share, 0.0), 1.0))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _pairs(verdict: ProofVerdict) -> Table | None:
    from rich.text import Text

    from launcher.experiments.fabric_proof import in_gb

    found: dict[str, list[float]] = {}
    for pair in verdict.record.pairs:
        for host in pair.hosts:
            found.setdefault(host, []).append(pair.busbw)
    if not found:
        return None
    table = _grid("HOST", "FASTEST PAIR", "SLOWEST PAIR", "")
    for host, rates in sorted(found.items(), key=lambda each: max(each[1]))[:_MOST_HOSTS]:
        slow = host in verdict.slow_hosts
        table.add_row(
            Text(host, "bold red" if slow else ""),
            in_gb(max(rates)),
            in_gb(min(rates)),
            "slow" if slow else "",
        )
    if len(found) > _MOST_HOSTS:
        table.add_row(Text(f"and {len(found) - _MOST_HOSTS} faster ones", "dim"))
    return table


def _storage(storage: Sequence[StorageRates]) -> Table:
    from launcher.experiments.fabric_proof import in_gb

    table = _grid("PLACE", "WRITE", "READ", "SLOWEST HOST", "")
    for each in storage:
        if each.error is not None:
            table.add_row(each.what, "", "", "", each.error)
            continue
        rates = [min(together.values(), default=0.0) for together in (each.write, each.read)]
        hosts = len(each.write)
        slowest = min(each.write, key=lambda host: each.write[host], default="")
        table.add_row(each.what, *(in_gb(hosts * rate) for rate in rates), slowest, "all hosts at once")
    return table


def _published(verdict: ProofVerdict) -> Table | None:
    from launcher.cluster.instances import instance_facts
    from launcher.experiments.fabric_proof import in_gb, in_percent, published_runs

    facts = instance_facts(verdict.record.instance_type or "")
    # On other hosts than the type's, as with --local, others' figures say nothing.
    if facts is None or verdict.record.gbps != facts.efa_gbps:
        return None
    table = _grid("PUBLISHED", "BUS", "OF LIMIT", "")
    for run in published_runs(facts.instance_type)[:_MOST_PUBLISHED]:
        table.add_row(
            f"{run.hosts} hosts",
            in_gb(run.busbw),
            in_percent(run.share_of(facts.efa_gbps)),
            f"{run.date} {run.source}",
        )
    return table
