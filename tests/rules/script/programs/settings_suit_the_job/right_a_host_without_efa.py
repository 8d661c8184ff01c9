# job: {"resources": {"instance_type": "ml.g5.xlarge", "instance_count": 1}, "framework": {"name": "pytorch", "version": "2.1"}}
import os

os.environ["NCCL_BUFFSIZE"] = "4194304"
os.environ["NCCL_NSOCKS_PERTHREAD"] = "8"
