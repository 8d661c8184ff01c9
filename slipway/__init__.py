"""What runs in the container: the boot, which starts a job's processes and says why they failed.

Shipped as `slipway.pyz` beside the job's source, so it must run on the Python of every image: 3.8 and
later, the standard library alone.
"""
