# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os

os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1"
