"""Attacks on the edges of Slipway, as tables: environments, inputs, checkpoints, containers, secrets.

Each kind is a table beside this module, `KIND.yaml`; `attacks` tells what stands in it, and reads it.
`trying` makes an attack in a folder of its own and judges what came of it.
"""
