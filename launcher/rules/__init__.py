"""Judgement: pure functions from plain data to findings.

`rules.job` judges a job file with the plan that was made of it, offline; `rules.live` judges both against
what the account holds. A rule derives nothing that the plan knows, calls nothing, and reports in one way:
`mode.at(path, message)`. Each registers what it finds where it stands.
"""
