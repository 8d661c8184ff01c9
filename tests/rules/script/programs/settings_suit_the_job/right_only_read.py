# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os

print(os.environ.get("NCCL_ASYNC_ERROR_HANDLING"), os.environ.get("NCCL_BUFFSIZE"))
