"""Programs that run in a process of their own: each says that it is ready, and obeys lines."""
