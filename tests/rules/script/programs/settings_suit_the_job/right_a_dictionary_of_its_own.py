# job: {"framework": {"name": "pytorch", "version": "2.8"}}
variables = {}
variables["NCCL_ASYNC_ERROR_HANDLING"] = "1"
variables["NCCL_BUFFSIZE"] = "1"
