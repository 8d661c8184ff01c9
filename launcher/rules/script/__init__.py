"""Rules on a training script: pure functions from a program, as `launcher.program` reads it, to findings.

A file holds the rules of a topic, and above each rule stands what it finds and why it matters. `findings`
is how a rule reports, with a fix where there is one; `check` runs all rules in order and says which
findings are accepted. A rule speaks only of what it knows: a callee, a path or a caller that cannot be
resolved gives no finding.
"""
