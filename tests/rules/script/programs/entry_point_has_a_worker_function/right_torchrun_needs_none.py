# job: {"distribution": {"strategy": "torchrun"}}
import torch_xla.core.xla_model as xm


def main():
    xm.xla_device()


main()
