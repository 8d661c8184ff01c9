# job: {"framework": {"name": "pytorch", "version": "2.1"}}
import os

os.environ["NCCL_BLOCKING_WAIT"] = "1"
