import torch
from accelerate import Accelerator

accelerator = Accelerator()
accelerator.save_state("last")
if accelerator.is_main_process:
    torch.save({"epoch": 1}, "epoch.pt")
