import os

os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"
