import os
import sys

os.environ["TRITON_CACHE_DIR"] = sys.argv[1]
