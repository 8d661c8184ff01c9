"""Rules on the states of a training: which ranks write them, into which folders, and what a later run loads.

`writers` are the ranks that save, `shared_folders` whether they mean one folder, `kept_folders` where a file
survives its host, `resuming` what a restarted job goes on from; `state_keys` compares the keys of what is
saved and loaded, with what `changed_keys` says is done to them between; `loading` says onto which device, and
looks at the commands that upload.
"""
