"""The static analysis of a training script and of what it imports, by `ast` alone: nothing of it is run.

From the bottom: `index` walks each file once into scopes, bindings and calls. `values` are what an expression
can be known to be, a rank, a world size, an object of a library; `texts` puts texts together. `bindings` says
which definitions reach a use and who calls a function with what, `records` what the fields of dataclasses
are given; `evaluate` makes a value of every expression of that. `program` reads the files and is what rules
are given. What may be told in several forms, such as partial applications and calls through functions that
only hand on what they get, stands there in one (`objects/written_out.py`, `objects/forwarding.py`).
`dataflow` asks it where a value comes from, `process_environment` which variables it sets, `process_starts`
which processes it starts. On these stand the analyses of `ranks`. What the names of libraries mean is data: a
table for each library in `libraries/`. Each module imports those before it and none behind it. The room knows
Python and the libraries of distributed training, and nothing of jobs or AWS. What it does not know is
UNKNOWN.

A rule is a function from a program to findings:

    @finds(Stage.SCRIPT, data.EPOCH_NOT_SET)
    def samplers_know_the_epoch(program: Program) -> Iterator[Finding]:
        for call, _ in program.calls("torch.utils.data.DistributedSampler"):
            if ...:
                yield finding_at(data.EPOCH_NOT_SET, call, "the message: what is wrong, what would happen")

with `finding_at` of `launcher/rules/script/findings.py`. What helps it:

    program.qualified(call.func)      "torch.distributed.barrier", however it was imported or renamed
    program.value(node)               RankValue, WorldSize, Constant, Instance, Defined, ... or UNKNOWN
    program.analysis(Guards)          an analysis of the whole program, made when first asked for and kept
    file.calls_of.get("barrier", ())  the calls by their last name: ask these first, it is quick
    parent_of(node), ancestors(node), scope_of(node), file_of(node), statement_of(node)
    file_of(node).location(node)      line, column and end, in characters from 1
"""
