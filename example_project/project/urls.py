"""The shop's pages."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="invoice-list")),
    path("invoices/", views.InvoiceList.as_view(), name="invoice-list"),
    path("invoices/<int:number>/", views.invoice, name="invoice"),
]
