# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os
import sys

os.environ["NCCL_ASYNC_ERROR_HANDLING"] = os.environ["NCCL_BUFFSIZE"] = sys.argv[1]
