"""Rules on what a training step does with gradients: who reduces them, and who applies them.

`reductions` finds models whose gradients nobody reduces, `accumulation` what several micro-batches gather,
`engines` those of DeepSpeed that take no step. `replicas` says which models DDP wraps, for whatever library.
"""
