# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os

os.environ.pop("NCCL_ASYNC_ERROR_HANDLING", None)
os.environ.pop("NCCL_BUFFSIZE", None)
