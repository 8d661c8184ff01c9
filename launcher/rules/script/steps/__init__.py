"""Rules on what a training step does with gradients: who reduces them, who clears and who applies them.

`reductions` finds models whose gradients nobody reduces, `accumulation` what several micro-batches gather,
`clearings` gradients that are cleared between these or never, `engines` those of DeepSpeed that take no step.
`replicas` says which models DDP wraps, for whatever library.
"""
