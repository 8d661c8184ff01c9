"""Programs and notebooks that start training jobs by the SageMaker SDK, read without running them."""
