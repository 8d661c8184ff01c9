"""What a program does as several ranks: analyses of the whole program, which the rules ask.

From the bottom: `truths` and `guards` (which tests differ between ranks), `reachability` (what the entry
comes to, what surely runs), `training_loops` (where a wrapped model is trained, and what the turns of a loop
run), `uniformity` (what all ranks agree on), `participants` (which ranks run a statement), `sequence` (what
runs behind a call), `sharded_models` (what puts the shards of a model together), `model_averaging` (whether
the ranks average their models by themselves), `collective_calls` and `divergence` (which collectives a
function runs, and where ranks part).
"""
