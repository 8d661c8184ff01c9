"""What runs inside each rank's process, beside the script: its start, its heartbeat, its answers."""
