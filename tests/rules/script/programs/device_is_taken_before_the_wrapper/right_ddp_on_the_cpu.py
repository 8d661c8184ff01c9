import os
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(Net())
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
