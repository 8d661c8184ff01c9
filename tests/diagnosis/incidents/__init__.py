"""Incidents told in the words of NCCL, torch, torchrun and SageMaker, with what is right by construction."""
