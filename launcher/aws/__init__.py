"""The door to AWS: errors in the launcher's words, the session, clients, and what is read by its name."""
