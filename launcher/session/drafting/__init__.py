"""Job files of what people have: what is read for a draft, from files or from AWS, how the draft is judged by
the rules of every job, and the file that is written, never over another one.
"""
