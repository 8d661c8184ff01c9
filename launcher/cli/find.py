"""`launch find`: the instance types that a job could have, by what it needs, with their prices.

It calls nothing: prices, hardware and regions are tables of this version, each with its day. With `--live` it
asks the account for its quotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import OutputFormat, OutputOption, console, message, print_json
from launcher.failure_modes.model import Refusal
from launcher.planning.find_hosts import Exclusion, FoundHosts, HostChoice, Order, find_hosts, read_needs

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from launcher.account.facts import Fact, ServiceQuota

    Quotas = Mapping[str, Fact[ServiceQuota | None]]

MOST_QUOTAS = 20
"""For so many types at most the account is asked: Service Quotas takes some ten calls a second."""

_NAMED = 4
"""So many types that one condition alone excludes are named."""

_WIDE = 100
"""Columns from which on a price stands in one line with its day, and the regions are counted."""

_FEW = 3
"""Of so many types at most the regions are named."""


def find(
    *,
    gpu: Annotated[str | None, Parameter(help="The GPU, such as H100, or Trainium2.")] = None,
    count: Annotated[int | None, Parameter(help="GPUs in all, of as many hosts as that takes.")] = None,
    memory: Annotated[str | None, Parameter(help="Memory of each GPU at least, such as 80GB.")] = None,
    region: Annotated[str | None, Parameter(help="Only what this region has, at its prices.")] = None,
    max_usd_hour: Annotated[
        float | None, Parameter(help="US dollars for an hour of all hosts at most, on demand.")
    ] = None,
    spot: Annotated[bool, Parameter(negative="", help="Only what is had as spot capacity.")] = False,
    efa: Annotated[bool, Parameter(negative="", help="Only hosts with EFA.")] = False,
    sort: Annotated[
        Order, Parameter(help="By the price of an hour, or of an hour of a TFLOPS (dense BF16).")
    ] = Order.HOUR,
    live: Annotated[
        bool, Parameter(negative="", help="Ask the account for its quotas, too; changes nothing.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """List the instance types with GPUs that a job could have. Exits with 1 where there is none.

    Without --live it calls nothing. With it, the region is that of the AWS configuration by default.
    """
    if live and region is None:
        region = _own_region()
    needs = read_needs(
        gpu=gpu,
        count=count,
        memory=memory,
        region=region,
        max_usd_hour=max_usd_hour,
        spot=spot,
        efa=efa,
    )
    found = find_hosts(needs, sort)
    quotas = _ask_quotas(found.choices, needs.region, spot=spot) if live and needs.region else None
    if output is OutputFormat.JSON:
        print_json(_found_json(found, quotas))
    elif found.choices:
        _show_choices(found.choices, needs.region, quotas, spot=spot)
    else:
        _show_exclusions(found)
    return 0 if found.choices else 1


def _own_region() -> str:
    from launcher.aws.session import session_region

    region = session_region()
    if region is None:
        raise Refusal(
            "--live asks a region for the account's quotas, and neither --region nor the AWS configuration "
            "names one.",
            "Give one: --region us-west-2.",
        )
    return region


def _ask_quotas(choices: Sequence[HostChoice], region: str, *, spot: bool) -> Quotas:
    from launcher.account.facts import Unverified
    from launcher.account.questions.gather import gather_quotas
    from launcher.aws.clients import Clients

    if len(choices) > MOST_QUOTAS:
        message(f"quotas are asked for the first {MOST_QUOTAS} of {len(choices)} types only")
    asked = [each.instance_type for each in choices[:MOST_QUOTAS]]
    quotas = gather_quotas(Clients(), region, asked, spot=spot) if asked else {}
    unseen = [each for each in quotas.values() if isinstance(each, Unverified)]
    if unseen:
        message(f"{len(unseen)} of {len(quotas)} quotas could not be seen: {unseen[0].reason}")
    return quotas


def _found_json(found: FoundHosts, quotas: Quotas | None) -> dict[str, Any]:
    return {
        "types": [
            {**each.to_json(), "quota": _quota_json(each.instance_type, quotas)} for each in found.choices
        ],
        "looked_at": found.looked_at,
        "exclusions": [each.to_json() for each in found.exclusions],
    }


def _quota_json(instance_type: str, quotas: Quotas | None) -> dict[str, Any] | None:
    from launcher.account.facts import ServiceQuota

    quota = None if quotas is None else quotas.get(instance_type)
    if not isinstance(quota, ServiceQuota):
        return None
    return {"name": quota.name, "code": quota.code, "hosts": quota.limit}


def _show_choices(
    choices: Sequence[HostChoice], region: str | None, quotas: Quotas | None, *, spot: bool
) -> None:
    from rich.text import Text

    terminal = console()
    terminal.print(_table(choices, region, quotas, is_narrow=terminal.width < _WIDE))
    if region is None and len(choices) <= _FEW:
        for each in choices:
            where = ", ".join(each.regions) or "no region that is known here"
            terminal.print(Text(f"{each.instance_type} is offered in {where}.", "dim"))
    for note in _notes(choices, region, spot=spot):
        terminal.print(Text(note, "dim"))


def _table(
    choices: Sequence[HostChoice], region: str | None, quotas: Quotas | None, *, is_narrow: bool
) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("TYPE", no_wrap=True, overflow="ignore")
    table.add_column("GPUS", overflow="fold")
    for header in ("GIB\nEACH", "EFA\nGBIT/S", "USD/\nHOUR", "PER\nPFLOPS"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("PRICE OF", overflow="fold", min_width=10)
    table.add_column("SPOT", no_wrap=True)
    has_regions = region is None and not is_narrow
    if has_regions:
        table.add_column("REGIONS", justify="right")
    if quotas is not None:
        table.add_column("QUOTA", justify="right")
    for each in choices:
        cells = _cells(each, "\n" if is_narrow else " ")
        if has_regions:
            cells.append(str(len(each.regions) or "?"))
        if quotas is not None:
            cells.append(_quota_cell(each, quotas))
        table.add_row(*cells)
    return table


def _cells(choice: HostChoice, between: str) -> list[str | Text]:
    """The cells of a row; `between` stands between the region and the day of a price."""
    facts, price = choice.facts, choice.price
    usd, per_tflop = choice.usd_per_hour, choice.usd_per_tflop_hour
    about = "~" if price is not None and price.estimated_by is not None else ""
    return [
        choice.instance_type,
        f"{choice.hosts} × {facts.accelerators} {choice.accelerator}",
        f"{facts.accelerator_memory_mib / 1024:.3g}" if facts.accelerator_memory_mib else "?",
        str(facts.efa_gbps) if facts.has_efa else "-",
        "?" if usd is None else f"{about}{usd:,.2f}",
        "-" if choice.bf16_tflops == 0 else "?" if per_tflop is None else f"{about}{1000 * per_tflop:,.2f}",
        "?" if price is None else f"{price.region}{between}{price.as_of}",
        "?" if choice.has_spot is None else "yes",
    ]


def _quota_cell(choice: HostChoice, quotas: Quotas) -> str | Text:
    """How many hosts the account may use; red where that is too few."""
    from rich.text import Text

    quota = _quota_json(choice.instance_type, quotas)
    if quota is None:
        return "?"
    return Text(f"{quota['hosts']:g}", "red" if quota["hosts"] < choice.hosts else "")


def _notes(choices: Sequence[HostChoice], region: str | None, *, spot: bool) -> list[str]:
    """What the table's figures mean, as far as they are in it."""
    prices = [each.price for each in choices if each.price is not None]
    which = "" if region is not None else ", in the region where it is lowest as far as is known"
    notes = [
        f"Prices are on demand for all hosts{which}; PER PFLOPS is for an hour of a PFLOPS (dense BF16, "
        "as the maker says). ? is not known here, - is none."
    ]
    if any(each.estimated_by is not None for each in prices):
        notes.append("~ is estimated from EC2's price, as SageMaker's own is not known.")
    if region is not None and any(each.region != region for each in prices):
        notes.append(f"Where another region stands under PRICE OF, the price of {region} is not known.")
    if spot:
        notes.append("On spot capacity the bill is lower; by how much is not known before.")
    notes.append(
        "EC2 offers the types there; SageMaker may lack one, and whether capacity is free is not to be seen."
    )
    return notes


def _show_exclusions(found: FoundHosts) -> None:
    """Which condition excludes what, so that it can be seen which of them is too much."""
    from rich.text import Text

    terminal = console()
    terminal.print(f"None of {found.looked_at} instance types with GPUs meets all conditions:")
    for each in found.exclusions:
        terminal.print(Text(f"  {_exclusion_in_words(each)}"))


def _exclusion_in_words(exclusion: Exclusion) -> str:
    words = f"{exclusion.condition} excludes {len(exclusion.excluded)}"
    if exclusion.unknown:
        words += f", and {len(exclusion.unknown)} of which it is not known"
    if exclusion.alone:
        named = ", ".join(exclusion.alone[:_NAMED])
        more = len(exclusion.alone) - _NAMED
        words += f"; without it there would be {named}{f' and {more} more' if more > 0 else ''}"
    return words
