# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os


def setup():
    os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"  # found: NCCL002


setup()
