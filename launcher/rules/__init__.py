"""Pure functions from plain data to findings, registered by the failure modes that they find."""
