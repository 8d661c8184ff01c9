"""From a job and a cluster to a `TrainingPlan`: pure derivation, no call and no upload.

`planner` is the way through: the name (`finished_request`), the strategy that starts the processes
(`strategies`), the version and the image (`image_choice`, by the tables in `images`), the destination and the
checkpoints (`training_plan`), the settings of the environment with their reasons (`settings`), and the one
request (`request`), which is checked against the API's own model, printed and sent as it is. On the way it
finds what keeps the job from running so. `request_view` reads a request back, for everybody above;
`finished_request` rewrites one, and `next_attempt` decides whether another follows a failed one; `show_plan`
makes what people see of a plan, and `job_cost` says what its hosts cost.
"""
