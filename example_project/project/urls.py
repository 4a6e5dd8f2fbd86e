"""The shop's pages, and the warehouse's door."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="invoice-list")),
    path("invoices/", views.InvoiceList.as_view(), name="invoice-list"),
    path("invoices/<int:number>/", views.invoice, name="invoice"),
    path("sales/", views.sales, name="sales"),
    path("warehouse/", include("warehouse.urls")),
]
