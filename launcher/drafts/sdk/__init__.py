"""Programs and notebooks that start training jobs by the SageMaker SDK, read without running them.

Each estimator or trainer becomes a draft: its keywords are evaluated as far as the program alone decides
them, tables say which field each of them is, and what only a run would show is a question at its line.
"""
