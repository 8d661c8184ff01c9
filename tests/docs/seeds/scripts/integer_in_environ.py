"""The compiler guide's third approach."""

import os

os.environ["GPU_NUM_DEVICES"] = 4
