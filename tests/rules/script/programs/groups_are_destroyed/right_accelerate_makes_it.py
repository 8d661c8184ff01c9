from accelerate import Accelerator

accelerator = Accelerator()
accelerator.wait_for_everyone()
