"""Rules on a training script: pure functions from a program, as `launcher.scripts` reads it, to findings.

A file holds a family, and above each rule stands what it finds and why it matters. A rule speaks only of what
it knows: a callee, a path or a caller that cannot be resolved gives no finding.
"""
