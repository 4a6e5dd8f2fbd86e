"""The worker: claims jobs, runs their handlers in threads, settles the claims.

``loop`` reads from top to bottom; it owns all shared state and everybody else posts to its
mailbox. ``execution`` is the life of one job inside a thread, ``settling`` turns outcomes
into statements, ``renewal`` keeps deadlines ahead, ``sessions`` keeps one handler's database
mess away from the next, ``tally`` counts, ``os_signals`` asks for the stop. ``scheduler_thread``
is a scheduler beside all this.

Above it stand the processes: ``supervisor`` keeps as many running as it was told to,
``processes`` forks them, ``channel`` is the pipes between, ``supervised`` is a worker at their
other end. ``recycling``, ``health`` and ``reloading`` are what their names say, and
``process_log`` writes the lines about all this.
"""
