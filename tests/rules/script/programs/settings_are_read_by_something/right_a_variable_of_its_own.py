import os

os.environ["MY_NCCL_TIMEOUT"] = "3600"
