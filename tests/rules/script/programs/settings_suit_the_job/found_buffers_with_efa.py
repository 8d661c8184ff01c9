# job: {}
import os

os.environ["NCCL_BUFFSIZE"] = "4194304"  # found: NCCL001
