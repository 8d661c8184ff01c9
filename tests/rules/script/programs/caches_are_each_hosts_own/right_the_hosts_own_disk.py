import os

os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/opt/ml/inductor"
