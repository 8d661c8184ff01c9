import os
import sys

if "--old" in sys.argv:
    os.environ["NCCL_TREE_THRESHOLD"] = "0"
