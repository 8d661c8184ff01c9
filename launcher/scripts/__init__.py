"""The reader of Python programs: what a training script and the files that it imports say, by `ast` alone.

`reading` finds the files of a program and indexes each in one walk (`index`, `scopes`). A `Program` then
answers what an expression is (`values`), wherever it comes from: imports, assignments, attributes, results,
arguments of every call (`evaluation`, `attributes`, `calling`, `callers`, `reaching`). It knows Python and
the libraries of distributed training, and nothing of jobs or AWS. What it does not know is UNKNOWN.

A rule is a function from a program to findings:

    @finds(Stage.SCRIPT, data.EPOCH_NOT_SET)
    def samplers_know_the_epoch(program: Program) -> Iterator[Finding]:
        for call, _ in program.calls("torch.utils.data.DistributedSampler"):
            if ...:
                yield found(data.EPOCH_NOT_SET, call, "the message: what is wrong, what would happen")

with `found` of `launcher/rules/script/finding.py`. What helps it:

    program.qualified(call.func)      "torch.distributed.barrier", however it was imported or renamed
    program.value(node)               RankValue, WorldSize, Constant, Instance, Defined, ... or UNKNOWN
    file.calls_of["barrier"]          the calls by their last name: ask these first, it is quick
    parent_of(node), ancestors(node), scope_of(node), file_of(node), statement_of(node)
    file_of(node).location(node)      line, column and end, in characters from 1
"""
