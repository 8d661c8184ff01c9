"""The job file: `JobSpec` is its schema, its parser and its documentation in one.

A file comes in with overrides and the values of `${NAME}`, a `LoadedJob` goes out (`load_job`): the
specification, or the findings that keep it from being one, and where each field stands. `specification` is
the whole file, `job_sections` and `tuning` its sections, `values` the types of single values; `script_inputs`
is what the script finds of it in its container. What a field means by itself is checked here; what needs
facts about instances, clusters or images is the plan's and the rules' to judge.
"""
