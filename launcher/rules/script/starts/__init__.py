"""Rules on how the ranks of a program are started: by which words, how many, and where they meet.

`topology` is who the ranks are and where they meet, `command_line` the words that a program gets, `launches`
what a job's launcher and the number of its processes make of a program that is right elsewhere.
"""
