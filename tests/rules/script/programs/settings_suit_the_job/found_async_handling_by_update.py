# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os

os.environ.update({"NCCL_ASYNC_ERROR_HANDLING": "1"})  # found: NCCL002
