from django.db import models


class Note(models.Model):
    """The business row that a job is enqueued beside."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text
