"""Workers under fire: ``python -m tests.concurrency.chaos``, or ``make chaos``."""
