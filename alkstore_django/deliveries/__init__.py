"""Ready deliveries of an outbox's events: webhooks, NATS JetStream.

Each needs its extra (``alkstore-django[webhooks]``, ``alkstore-django[nats]``); nothing else
of the package imports these modules.
"""
