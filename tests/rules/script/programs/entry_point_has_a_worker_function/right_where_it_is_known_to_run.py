# job: {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": "ml.p3.8xlarge", "instance_count": 1}}
import sys

if sys.argv:

    def _mp_fn(index): ...
