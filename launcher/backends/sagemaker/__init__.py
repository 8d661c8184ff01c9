"""Managed training on Amazon SageMaker."""
