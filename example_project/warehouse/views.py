"""The webhook receiver: verify the signature, look into the inbox, do the work."""

import json

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from alkstore_django import inbox
from alkstore_django.deliveries.webhooks import verify
from alkstore_django.exceptions import InvalidSignature
from warehouse.models import Shipment


@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """Take one event of the shop; delivered again, it changes nothing."""
    try:
        event_id = verify(request.body, request.headers, settings.WEBHOOK_SECRET)
    except InvalidSignature as error:
        return HttpResponse(f"{error}\n", status=401, content_type="text/plain")
    with transaction.atomic(), inbox("warehouse", event_id) as first:
        if first:
            order = json.loads(request.body)
            Shipment.objects.create(
                order_number=order["order"], customer=order["customer"], pieces=order["pieces"]
            )
    return HttpResponse(status=204)
