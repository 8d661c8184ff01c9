"""What differs between the ranks though nobody asks for a rank: what each process has for itself.

`sources` says by what a value surely differs, such as a clock, a random number without a common seed or the
name of a host; `clocks` whether a time is written so finely that two processes tell another one.
"""
