# job: {"distribution": {"strategy": "none"}}
from multiprocessing import Pool

with Pool(processes=4) as pool:
    pool.map(load, files)
