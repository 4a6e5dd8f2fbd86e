"""The worker: claims jobs, runs their handlers in threads, settles the claims.

``loop`` reads from top to bottom; it owns all shared state and everybody else posts to its
mailbox. ``execution`` is the life of one job inside a thread, ``settling`` turns outcomes
into statements, ``renewal`` keeps deadlines ahead, ``sessions`` keeps one handler's database
mess away from the next, ``tally`` counts, ``os_signals`` asks for the stop.
"""
