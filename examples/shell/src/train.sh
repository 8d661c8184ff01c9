#!/usr/bin/env bash
# Prepare the data, then train: the first thing that fails ends the job with its exit code.
set -euo pipefail
model=${1:-$SM_MODEL_DIR}
data=$(mktemp -d)
trap 'rm -r "$data"' EXIT
python prepare.py "$data/digits.pt"
python train.py --data "$data/digits.pt" --model "$model/model.pt"
