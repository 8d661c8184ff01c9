"""YAML that people write: read with positions, and validated against a model, all errors at once.

`document` turns untrusted text into plain data, remembers where each value stands, and holds it against a
pydantic model: a finding for each mistake, with its line and what was meant. Job files and cluster files are
both read here, so that both are refused in the same words. `regular_files` opens what people name, and opens
regular files only.
"""
