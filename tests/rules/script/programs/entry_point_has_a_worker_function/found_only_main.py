# job: {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": "ml.p3.8xlarge", "instance_count": 1}}
# found: XLA002
import torch_xla.core.xla_model as xm


def main():
    device = xm.xla_device()


if __name__ == "__main__":
    main()
