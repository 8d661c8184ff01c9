"""What asks the account: one question for each fact, all of them at once."""
