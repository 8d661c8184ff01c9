# job: {"distribution": {"strategy": "none"}, "resources": {"instance_type": "ml.g5.xlarge", "instance_count": 1}}
from lightning.pytorch import Trainer

Trainer(devices=1).fit(model)
