"""The checks of the rule pack: pure functions of what a template says, and the visit of an app."""
