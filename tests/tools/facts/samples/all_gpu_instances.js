// Auto-generated from instances.vantage.sh data
// Last updated: 2026-01-21

const allGPUInstances = [
  {"name": "p5.48xlarge", "pricing": {
    "us-east-1": {"onDemand": 55.0}, "eu-north-1": {"onDemand": 58.88}, "us-east-1-wl1": {"onDemand": 9.9}}},
  {"name": "p5e.48xlarge", "pricing": {"eu-north-1": {"reserved": 1.0}}},
  {"name": "dl2q.24xlarge", "pricing": {"eu-north-1": {"onDemand": 8.9}}}
];
