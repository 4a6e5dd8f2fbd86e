"""The shop's queues and its outbox, and what is done with their jobs and events."""

from django.conf import settings

from alkstore_django import FailJob, Job, Outbox, Queue
from alkstore_django.deliveries.webhooks import WebhookDelivery
from alkstore_django.maintenance import sweep_handler
from shop.invoicing import invoice_for
from shop.models import Invoice, Order
from shop.sales import refresh_summary

invoices = Queue("invoices", visibility_timeout_s=10, max_attempts=5, backoff_base_s=5)
summaries = Queue("summaries", visibility_timeout_s=30)
maintenance = Queue("maintenance", dead_letter_retention_s=30 * 24 * 3600)
order_events = Outbox("order-events", visibility_timeout_s=30)

order_events.deliver(
    WebhookDelivery(f"{settings.WAREHOUSE_URL}/warehouse/events/", settings.WEBHOOK_SECRET)
)
maintenance.handler(sweep_handler)


@invoices.handler(atomic=True)
def make_invoice(job: Job) -> None:
    """Make the invoice of one order; made twice, it is the same invoice again."""
    number = job.payload["order"]
    try:
        order = Order.objects.for_invoice().get(number=number)
    except Order.DoesNotExist:
        raise FailJob(f"there is no order {number}") from None
    Invoice.objects.update_or_create(order=order, defaults=invoice_for(order))


@summaries.handler(atomic=True)
def refresh_sales(job: Job) -> None:
    """Bring the sales per country up to date; the schedule asks for it."""
    refresh_summary()
