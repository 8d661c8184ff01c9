"""Programs and notebooks that start training jobs by the SageMaker SDK, read without running them: `values`
says what their expressions are, `reading` what both versions of the SDK have alike, `estimator` and `trainer`
what each has of its own, and `program` finds the jobs.
"""
