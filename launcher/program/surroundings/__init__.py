"""What a program takes from its surroundings, and leaves there: the words of its command line, the channels
that it reads, and where it saves."""
