import os

os.environ["TRITON_CACHE_DIR"] = "fsx/triton"
