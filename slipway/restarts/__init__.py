"""The ranks again, in the same job: whether after such an end, agreed on by all hosts, and how."""
