"""Judgement: pure functions from plain data to findings.

`rules.job` judges a job file with the plan that was made of it, offline, `rules.script` the training script;
`rules.live` judges job and plan against what the account holds. A rule derives nothing that the plan knows,
calls nothing, and reports in one way: `mode.at(path, message)`. Each registers what it finds where it stands.
What rules of several rooms go by is in `shared_facts`.
"""
