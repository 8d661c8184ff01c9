# job: {}
from os import environ

environ["NCCL_SOCKET_NTHREADS"] = "8"  # found: NCCL001
