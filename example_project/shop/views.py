"""The pages that show invoices (a list, and each as its customer gets it) and sales."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.generic import ListView

from shop.models import Invoice, Order
from shop.sales import sales_page


class InvoiceList(ListView):
    """All orders, a page at a time, with what their invoices say."""

    queryset = Order.objects.select_related("customer", "invoice").defer("invoice__html")
    paginate_by = 50
    template_name = "shop/invoice_list.html"


def invoice(request: HttpRequest, number: int) -> HttpResponse:
    """The stored page of one invoice, or one that says that it has not been made yet."""
    order = get_object_or_404(Order, number=number)
    try:
        return HttpResponse(order.invoice.html)
    except Invoice.DoesNotExist:
        return render(request, "shop/invoice_pending.html", {"order": order}, status=404)


def sales(request: HttpRequest) -> HttpResponse:
    """Sales per country, as of the last refresh: a chart and a table."""
    return HttpResponse(sales_page())
