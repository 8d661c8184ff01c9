"""The experiment of `launch pair`: two runs that differ in one thing, compared in loss and in speed.

`differences` is what the runs differ in, `series` the losses that each printed, `rates` how fast it was,
`comparison` both beside each other with how sure that is (`estimates`), and `verdicts` that in sentences.
"""
