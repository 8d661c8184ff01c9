import os
import subprocess

subprocess.run(["probe"], env={**os.environ, "CUDA_LAUNCH_BLOCKING": "1"}, check=True)
