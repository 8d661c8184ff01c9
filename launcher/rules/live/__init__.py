"""Rules on what the AWS account holds: in comes a `LiveSubject`, out come findings.

A rule is one function, named by what it demands and marked with `@live_rule(mode, facts...)`: where one of
its facts could not be had, the mark says "could not verify" in its place and the rule is not called. `check`
lists all of them; `missing_rules` tells which security group rules `--fix` may add.
"""
