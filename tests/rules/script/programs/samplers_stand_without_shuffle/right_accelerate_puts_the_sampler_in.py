from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
loader = accelerator.prepare(DataLoader(dataset, shuffle=True))
