from torch.utils.data import DataLoader, DistributedSampler

train_sampler = DistributedSampler(train_set)  # found: DATA003
test_sampler = DistributedSampler(test_set)
train_loader = DataLoader(cached(train_set), shuffle=True)
test_loader = DataLoader(test_set, sampler=test_sampler)
