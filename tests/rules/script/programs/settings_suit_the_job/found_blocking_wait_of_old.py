# job: {"framework": {"name": "pytorch", "version": "2.8"}}
import os

os.environ["NCCL_BLOCKING_WAIT"] = "1"  # found: NCCL002
