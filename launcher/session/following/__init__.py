"""A job that is being followed: what passes by itself is waited out, and what its lines tell is read along.

`follow` looks at a job again and again and hands what it sees to a `Display`. `monitor` is such a display:
it lets the chosen lines through (`log_filter`), picks step, loss and speed from all of them (`progress`),
notices when the job stands still (`stall`), and hands the result to a `Screen`.
"""
