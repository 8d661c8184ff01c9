"""Runs that a controller goes on with, while everything around it goes wrong.

`stepped_function` is the packed function in processes that may be killed; `lockstep` lets several of its
calls run at once, one call of AWS at a time; `simulation` is one run with its queue, its events and its time,
`judging` what must hold of it, `campaign` very many.
"""
