"""One HTML page of a run: what happened, who did what when, and what was planned.

Lines are read once into bounded summaries (`summaries`), `run_report` is the plain data of a page, made of
them and of what the session gathers, `plan_summary` takes out of a plan what a page shows. `sentences` are
the words of the page, `page` makes HTML of all of it. Nothing here reads files or asks AWS.
"""
