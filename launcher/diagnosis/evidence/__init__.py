"""What a failed job leaves besides the lines of its logs, read into what the diagnosis judges by.

`dumps` reads what ranks left of themselves: PyTorch's flight recorder, without ever loading a class, and who
stands elsewhere than the others by their stacks. `rank_reports` reads what NCCL and PyTorch's own analyser
say of all ranks, `host_records` what the kernel and the driver say of a host. All are pure, and know bytes or
text but no files. `collect` tells by its beginning what a file is, and judges several of them beside each
other: which ranks the others wait for.
"""
