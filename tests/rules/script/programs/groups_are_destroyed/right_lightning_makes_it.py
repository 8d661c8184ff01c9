from lightning.pytorch import Trainer

Trainer(devices=8, strategy="ddp").fit(model)
