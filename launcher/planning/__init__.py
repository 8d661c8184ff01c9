"""From a job and a cluster to a `TrainingPlan`: pure derivation, no call and no upload.

`planner` is the way through: the destination (region, role, buckets, network), the strategy that starts the
processes, the image, the settings of the environment with their reasons, and the one request, which is
printed and sent as it is. On the way it finds what keeps the job from running so. `request_view` reads a
request back, for everybody above; `cost` says what its hosts cost.
"""
