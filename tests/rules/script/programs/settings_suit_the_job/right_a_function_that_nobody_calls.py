# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os


def slow():
    os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"
    os.environ["NCCL_BUFFSIZE"] = "1"
