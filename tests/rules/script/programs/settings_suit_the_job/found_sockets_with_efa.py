# job: {}
import os

os.environ.setdefault("NCCL_NSOCKS_PERTHREAD", "8")  # found: NCCL001
