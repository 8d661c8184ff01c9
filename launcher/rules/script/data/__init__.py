"""Rules on what feeds the training: from the files on the disk to the batch of a rank.

`data_files` are listings and channels, `lists` where a list goes, `downloads` and `preparations` who makes
files and who waits for it, `shards` and `samplers` say which part of them is a rank's own, `epochs` if they
learn the epoch, `loaders` what hands out batches, `by_libraries` what libraries do in their place; `workers`
are the processes behind it.
"""
