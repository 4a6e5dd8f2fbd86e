"""Workers under fire: ``python -m tests.chaos``, or ``make chaos``."""
