"""Some cells of the matrix, as lines of JSON: `python -m tools.attack.matrix NUMBER SEED [TEXT OF A
CELL...]`.

Of each text the first cell that holds it is run as well.
"""

import json
import sys
from dataclasses import asdict

from tools.attack.matrix.campaign import attacked_cells

for judged in attacked_cells(int(sys.argv[1]), seed=int(sys.argv[2]), also=sys.argv[3:]):
    print(json.dumps({**asdict(judged), "cell": str(judged.cell)}, default=str), flush=True)
