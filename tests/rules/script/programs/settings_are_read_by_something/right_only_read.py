import os

limit = int(os.environ.get("NCCL_TIMEOUT", 1800))
