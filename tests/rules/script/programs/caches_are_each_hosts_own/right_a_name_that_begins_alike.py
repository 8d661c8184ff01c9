import os

os.environ["TRITON_CACHE_DIR"] = "/fsx2-local/triton"
