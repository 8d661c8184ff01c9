"""The health gate: what would hang or fail for want of a sound host is refused before the ranks start.

`pass_gate` is the sequence. Facts are read in `probe_host`, by `look` and `reduction` in processes of their
own, which may hang; `judge_host`, `judge_network` and `verdict` judge them and read nothing.
"""
