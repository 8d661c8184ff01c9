import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
if parser.parse_args().debug:
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
