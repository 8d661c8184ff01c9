from torch.utils.data import DistributedSampler
from torch_geometric.loader import NeighborLoader

loader = NeighborLoader(graph, shuffle=True, sampler=DistributedSampler(nodes))
