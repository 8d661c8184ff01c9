# job: {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": "ml.p3.8xlarge", "instance_count": 1}}
# found: XLA002
import torch_xla.distributed.xla_multiprocessing as xmp


def mp_fn(index):
    train()


if __name__ == "__main__":
    xmp.spawn(mp_fn)
