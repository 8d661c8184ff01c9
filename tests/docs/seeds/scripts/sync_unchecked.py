"""The model parallel guide's helper: nobody looks at the exit code."""

import subprocess


def aws_s3_sync(source, destination):
    p = subprocess.Popen(["aws", "s3", "sync", "--quiet", source, destination], stdout=subprocess.PIPE)
    p.wait()


aws_s3_sync("/opt/ml/checkpoints", "s3://bucket/checkpoints")
