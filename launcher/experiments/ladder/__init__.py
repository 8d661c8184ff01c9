"""The experiment of `launch ladder`: the same job with ever more processes and hosts, to where it breaks.

`rungs` are its runs, `rung_settings` what each changes of the job, `script_words` what the script is told so
that a run is short, and `results` what their ends say of the cause.
"""
