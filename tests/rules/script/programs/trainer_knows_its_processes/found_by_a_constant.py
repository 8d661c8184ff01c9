# job: {"distribution": {"strategy": "torchrun"}}
import pytorch_lightning as pl

DEVICES = 1
trainer = pl.Trainer(devices=DEVICES, precision="bf16")  # found: DIST008
