"""The launcher for people in notebooks, and for programs: plan, check and launch a job file.

`entry` has the three functions, `job` the handle that a launch returns, with its card in a notebook, what is
said meanwhile and the only way to the SageMaker SDK, which nothing else here imports. What is public is what
`launcher` itself names.
"""
