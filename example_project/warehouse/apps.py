"""The warehouse as a Django app: a receiver of the shop's events, as another system would be."""

from django.apps import AppConfig


class WarehouseConfig(AppConfig):
    name = "warehouse"
    default_auto_field = "django.db.models.BigAutoField"
