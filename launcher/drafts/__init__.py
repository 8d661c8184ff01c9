"""Job files made of what people have: a script, a training job's request, a program of the SageMaker SDK, a
batch script.

What is known becomes a field, what is not known a question in a comment, and never a guess. Pure: what was
read goes in, the text of a job file comes out.
"""
