"""One HTML page that tells a run: what happened, who did what when, and what was planned.

Lines are read once into bounded summaries (`reading.py`), `run_report.py` is the plain data of a page, and
`page.py` makes the page of it. Nothing here reads files or asks AWS.
"""
