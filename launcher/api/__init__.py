"""The launcher for people in notebooks, and for programs: plan, check and launch a job file.

`entry` has the three functions, `job` the handle that a launch returns, `card` its picture in a notebook,
`telling` what is said meanwhile, and `sdk_resource` the only way to the SageMaker SDK, which nothing else
here imports. What is public is what `launcher` itself names.
"""
