"""The cluster: its file, what was provisioned from it, and the facts about instances and networks.

`specification` is the cluster file, from which `stacks/` synthesize; `manifest` is what came out, which the
launcher reads, and `manifest_store` where it is kept on this machine. `instances` and `lustre` are tables of
AWS's own, `training_network` what training asks of a network, `security_groups` whether traffic passes,
`sagemaker_names` what SageMaker is called and calls its hosts, `templates` how a template is read. The CDK's
side and the launcher both read this room, so that what is provisioned and what is checked cannot differ.
"""
