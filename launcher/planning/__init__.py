"""From a job and a cluster to the training plan: pure derivation, no call and no upload."""
