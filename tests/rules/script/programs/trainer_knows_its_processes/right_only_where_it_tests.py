# job: {"distribution": {"strategy": "torchrun"}}
import sys
from lightning.pytorch import Trainer

if "--test" in sys.argv:
    Trainer(devices=1).test(model)
