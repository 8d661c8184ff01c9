"""What asks the account: all that a job names, at once, each question in a thread and within a bound.

What a job names comes in (`wanted`), `AccountFacts` go out (`gathering`). In between, a class for
each part of the account holds its typed questions, says what can be asked with the answers so far, and puts
facts together from the answers; the functions that ask AWS stand beside it. What could not be had is
`Unverified`, with its permission. The one thing that changes an account is `security_group_repair`.
"""
