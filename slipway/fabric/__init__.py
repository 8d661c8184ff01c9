"""What `launch proof` runs on every rank: how fast the hosts reduce together, in pairs, and how fast they
read and write what they share.

`measure` is the program and what it measures of the network; `storage` measures folders and the job's place
for checkpoints. All figures are what a rank saw; nothing is judged here.
"""
