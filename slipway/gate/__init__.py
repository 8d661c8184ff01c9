"""The health gate: what would hang or fail for want of a sound host is refused before the ranks start.

`pass_gate` is the sequence, and its end the one verdict of all hosts. Facts are read in `probe_host`, by
`look` and `reduction` in processes of their own, which may hang; `judge_host` and `judge_network` judge them
and read nothing.
"""
