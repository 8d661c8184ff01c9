"""YAML files that people write: parsed with positions, and validated against a model, all errors at once.

Job files and cluster files are both read here, so that both are refused in the same words.
"""
