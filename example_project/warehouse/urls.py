"""The warehouse's one door."""

from django.urls import path

from warehouse import views

urlpatterns = [path("events/", views.receive, name="warehouse-events")]
