import os
import subprocess

subprocess.run(["old"], env={**os.environ, "NCCL_TIMEOUT": "3600"}, check=True)
