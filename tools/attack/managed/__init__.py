"""Runs that a controller goes on with, while everything around it goes wrong.

`lockstep` lets several calls of the controller's function run at once, one call of AWS at a time;
`simulation` is one run with its queue, its events and its time, `judging` what must hold of it, `campaign`
very many.
"""
