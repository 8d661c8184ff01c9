<<<<<<< HEAD
"""Programs and notebooks that start training jobs by the SageMaker SDK, read without running them.

Each estimator or trainer becomes a draft: its keywords are evaluated as far as the program alone decides them,
tables say which field each of them is, and what nobody can know without running it is a question at its line.
=======
"""Programs and notebooks that start training jobs by the SageMaker SDK, read without running them: `values`
says what their expressions are, `reading` what both versions of the SDK have alike, `estimator` and `trainer`
what each has of its own, and `program` finds the jobs.
>>>>>>> w-import
"""
