"""Train a tiny GPT-2 on bytes with the Trainer of Hugging Face Transformers."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
CONTEXT = 64


class Bytes(Dataset[dict[str, torch.Tensor]]):
    """A module of Python's standard library, cut into sequences."""

    def __init__(self) -> None:
        text = bytearray(Path(argparse.__file__).read_bytes())
        self._text = torch.frombuffer(text, dtype=torch.uint8).long()

    def __len__(self) -> int:
        return len(self._text) // CONTEXT

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        sequence = self._text[index * CONTEXT : (index + 1) * CONTEXT]
        return {"input_ids": sequence, "labels": sequence}


def main() -> None:
    """Train from the newest checkpoint, or from the start, and leave a model."""
    # The options join the group of ranks when they are made, so they must know by then where it computes.
    here = [] if torch.cuda.is_available() else ["--use_cpu"]
    (options,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses([*sys.argv[1:], *here])
    config = GPT2Config(
        vocab_size=256, n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=options, train_dataset=Bytes())
    if trainer.is_world_process_zero():
        print(f"world_size={options.world_size}", flush=True)
    folder = Path(options.output_dir)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)) if folder.is_dir() else None)
    trainer.save_model(str(MODEL))
    if torch.distributed.is_initialized():
        # A thread of gloo's needs Python's lock to let go of what was exchanged last, and the group, which
        # goes with the trainer, would wait for that thread with the lock held (torch 2.13).
        time.sleep(0.1)
        # Its threads would otherwise be running still when the interpreter ends, which can abort.
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
