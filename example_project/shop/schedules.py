"""What the shop does again and again; ``alkstore_schedules`` registers and runs it."""

from django.conf import settings

from alkstore_django import declare_schedule
from shop.queues import maintenance, summaries

declare_schedule("sales-summary", settings.SALES_EVERY, summaries, {}, expires=3600)
declare_schedule("sweep", "@every 5m", maintenance, {}, expires=300)
