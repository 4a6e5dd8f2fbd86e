"""The scheduler: turns elapsed boundaries of schedules into jobs.

``runner`` stands by, leads and stops, and reads from top to bottom; ``leadership`` keeps the
lease and knows until when it can be trusted; ``ticking`` fires what is due; ``declarations``
is what the code declares, and brings it into the database.
"""
