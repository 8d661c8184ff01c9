"""The door to AWS: one set of clients for each command, and AWS's errors in the launcher's words.

A command makes one `Clients`, over one session, and hands it down to whoever calls AWS. Out come clients for
a purpose (patient, brisk, following), who the caller is, and what is read by its name: a cluster's manifest,
a job's request. Each fault becomes a refusal that says what was tried, what AWS answered and what to do.
"""
