"""Job files of what people have: what is read for a draft, and the file that is written.

A script, or the one of a folder that trains, with the folder in which its imports are found and what its
requirements install; a training job by its name, a program, a notebook, a batch script. Nothing is run, and
no file is written over.
"""
