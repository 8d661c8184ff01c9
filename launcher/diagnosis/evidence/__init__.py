"""What a failed job leaves besides the lines of its logs, read into what the diagnosis judges by.

Each kind has its reader: `recordings` PyTorch's flight recorder (`plain_pickle` reads its files safely,
`stuck` says which ranks the others wait for), `stacks` py-spy and faulthandler, `nccl_ras` NCCL's own report.
All are pure, and know bytes or text but no files. `recognition` tells by its beginning what a file is;
`found` puts together what several files of a job say.
"""
