"""The worker's side: claims jobs over HTTP, runs them, and reports what happened.

It runs on another machine than the control plane: no Django in it, and nothing of the other apps.
"""
