"""What training scripts call beside their checkpoints, so that trouble on one rank is known on all.

`data_order` and `even_batches` give the ranks as many batches, of the same data, in the same order; `guard`
looks at each step, by what `step_measures` measures and sends, and computes a batch in parts where memory
runs out. The ranks agree through `agreement`. Nothing imports torch before it is needed.
"""
