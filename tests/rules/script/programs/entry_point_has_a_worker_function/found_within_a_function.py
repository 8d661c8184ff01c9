# job: {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": "ml.p3.8xlarge", "instance_count": 1}}
# found: XLA002
def start():
    def _mp_fn(index):
        train()

    return _mp_fn


start()
