# job: {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": "ml.p3.8xlarge", "instance_count": 1}}
def main(): ...


_mp_fn = lambda index: main()
