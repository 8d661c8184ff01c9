import os

os.environ.pop("CUDA_LAUNCH_BLOCKING", None)
