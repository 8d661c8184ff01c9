# job: {"distribution": {"strategy": "torchrun"}}
from transformers import Trainer

Trainer(model=model, devices=1).train()
