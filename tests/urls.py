"""No pages yet; Django's checks want to find the module."""

urlpatterns: list[object] = []
