# job: {"distribution": {"strategy": "torchrun"}}
from lightning.pytorch import Trainer

Trainer(accelerator="gpu", devices="1").fit(model)  # found: DIST008
