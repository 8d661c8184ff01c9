import os

os.environ["SM_CHANNEL_TRAINING"] = "/fsx/data"
