"""What several runs of one job teach: how two of them differ, in loss and in speed, and how sure that is.

Pure: it gets what runs printed as plain numbers, and says what follows. Who starts the runs, and reads what
they print, is the session.
"""
