"""What runs inside each rank's process, beside the script.

`start` and `printing` are the programs by which a rank begins. `attendant` is the thread that counts the
script's steps and answers the boot, with the heartbeat, the file that both see. Every rank pays for what
these import.
"""
