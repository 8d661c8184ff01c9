"""Whether a training's numbers, memory and pace are sound, seen from within its ranks."""
