"""What the warehouse knows of the shop: nothing but what the events tell it."""

from django.db import models


class Shipment(models.Model):
    """An order to be packed. No constraint forbids a second one: the inbox sees to that."""

    order_number = models.PositiveIntegerField()
    customer = models.CharField(max_length=200)
    pieces = models.PositiveIntegerField()
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"Shipment of order {self.order_number}"
