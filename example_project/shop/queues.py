"""The shop's queues and what is done with their jobs."""

from alkstore_django import FailJob, Job, Queue
from shop.invoicing import invoice_for
from shop.models import Invoice, Order

invoices = Queue("invoices", visibility_timeout_s=10, max_attempts=5, backoff_base_s=5)


@invoices.handler(atomic=True)
def make_invoice(job: Job) -> None:
    """Make the invoice of one order; made twice, it is the same invoice again."""
    number = job.payload["order"]
    try:
        order = Order.objects.for_invoice().get(number=number)
    except Order.DoesNotExist:
        raise FailJob(f"there is no order {number}") from None
    Invoice.objects.update_or_create(order=order, defaults=invoice_for(order))
