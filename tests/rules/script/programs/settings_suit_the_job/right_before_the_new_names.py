# job: {"framework": {"name": "pytorch", "version": "2.1"}}
import os

os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"
