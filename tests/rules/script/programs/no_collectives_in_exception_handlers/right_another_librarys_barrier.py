import threading

gate = threading.Barrier(2)
try:
    train()
finally:
    gate.wait()
