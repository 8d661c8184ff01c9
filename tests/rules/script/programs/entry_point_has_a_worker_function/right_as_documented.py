# job: {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": "ml.p3.8xlarge", "instance_count": 1}}
def main(): ...
def _mp_fn(index):
    main()


if __name__ == "__main__":
    main()
