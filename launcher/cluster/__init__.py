"""The cluster: its file, what was provisioned from it, and the facts about instances and networks.

`specification` is the cluster file, with `network_section`, `storage_section` and `hyperpod_section`, from
which `stacks/` synthesize; `files` finds and reads it and the templates made of it, `updates` says what a
change of it does.
`manifest` is what came out, which the launcher reads and keeps. `names` are names that all sides share.
`instances` and `lustre` are tables of AWS's own, `address_slots` says where subnets lie, `traffic` whether
what training asks of a network passes. The CDK's side and the launcher both read this room, so that what is
provisioned and what is checked cannot differ.
"""
