import os

verbose = os.environ.get("NCCL_DEBUG") == "INFO"
