"""Defects that are put into public programs, one at a time, to see whether the lint finds them.

`sources` brings the programs, `site` and `whole` read one without the lint's own reader, the `*_kinds` say
where each kind of defect goes and how it is written, `trial` lints before and after and compares.
"""
