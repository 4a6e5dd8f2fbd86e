"""The engine's tables, and Django's read-only mirrors of them."""

from django.db import migrations, models

import alkstore_django.fields
from alkstore_django.operations import RunEngineSQL


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        RunEngineSQL("0001_initial"),
        migrations.CreateModel(
            name="DeadJob",
            fields=[
                (
                    "id",
                    models.BigIntegerField(primary_key=True, serialize=False, verbose_name="id"),
                ),
                ("queue", models.TextField(verbose_name="queue")),
                ("priority", models.IntegerField(verbose_name="priority")),
                ("run_at", alkstore_django.fields.EpochField(verbose_name="run at")),
                (
                    "expires_at",
                    alkstore_django.fields.EpochField(null=True, verbose_name="expires at"),
                ),
                ("attempts", models.IntegerField(verbose_name="attempts")),
                ("max_attempts", models.IntegerField(verbose_name="max attempts")),
                (
                    "visibility_timeout_s",
                    models.BigIntegerField(verbose_name="visibility timeout (s)"),
                ),
                ("backoff_base_s", models.BigIntegerField(verbose_name="backoff base (s)")),
                ("enqueued_at", alkstore_django.fields.EpochField(verbose_name="enqueued at")),
                ("worker_id", models.TextField(null=True, verbose_name="worker")),
                (
                    "claimed_at",
                    alkstore_django.fields.EpochField(null=True, verbose_name="claimed at"),
                ),
                ("codec", models.TextField(verbose_name="codec")),
                ("key", models.TextField(null=True, verbose_name="key")),
                ("payload", models.BinaryField(verbose_name="payload")),
                ("last_error", models.TextField(verbose_name="last error")),
                ("died_at", alkstore_django.fields.EpochField(verbose_name="died at")),
            ],
            options={
                "verbose_name": "dead job",
                "verbose_name_plural": "dead jobs",
                "db_table": "alkstore_django_dead_job",
                "permissions": (("enqueue_again_deadjob", "Can enqueue dead jobs again"),),
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.BigIntegerField(primary_key=True, serialize=False, verbose_name="id"),
                ),
                ("queue", models.TextField(verbose_name="queue")),
                ("priority", models.IntegerField(verbose_name="priority")),
                ("run_at", alkstore_django.fields.EpochField(verbose_name="run at")),
                (
                    "expires_at",
                    alkstore_django.fields.EpochField(null=True, verbose_name="expires at"),
                ),
                ("attempts", models.IntegerField(verbose_name="attempts")),
                ("max_attempts", models.IntegerField(verbose_name="max attempts")),
                (
                    "visibility_timeout_s",
                    models.BigIntegerField(verbose_name="visibility timeout (s)"),
                ),
                ("backoff_base_s", models.BigIntegerField(verbose_name="backoff base (s)")),
                ("enqueued_at", alkstore_django.fields.EpochField(verbose_name="enqueued at")),
                ("worker_id", models.TextField(null=True, verbose_name="worker")),
                (
                    "claimed_at",
                    alkstore_django.fields.EpochField(null=True, verbose_name="claimed at"),
                ),
                ("codec", models.TextField(verbose_name="codec")),
                ("key", models.TextField(null=True, verbose_name="key")),
                ("payload", models.BinaryField(verbose_name="payload")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("pending", "pending"),
                            ("processing", "processing"),
                            ("behind", "pending, behind another of its key"),
                        ],
                        verbose_name="state",
                    ),
                ),
                ("deadline", alkstore_django.fields.EpochField(null=True, verbose_name="deadline")),
                ("claim_token", models.BigIntegerField(null=True, verbose_name="claim token")),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "db_table": "alkstore_django_job",
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                ("spec", models.TextField(verbose_name="spec")),
                ("interval_s", models.BigIntegerField(verbose_name="interval (s)")),
                ("queue", models.TextField(verbose_name="queue")),
                (
                    "next_boundary_at",
                    alkstore_django.fields.EpochField(verbose_name="next boundary"),
                ),
                (
                    "first_boundary_at",
                    alkstore_django.fields.EpochField(verbose_name="first boundary"),
                ),
                (
                    "last_boundary_at",
                    alkstore_django.fields.EpochField(null=True, verbose_name="last boundary"),
                ),
                (
                    "last_fired_at",
                    alkstore_django.fields.EpochField(null=True, verbose_name="last fired"),
                ),
                ("registered_at", alkstore_django.fields.EpochField(verbose_name="registered at")),
                ("changed_at", alkstore_django.fields.EpochField(verbose_name="changed at")),
                (
                    "n_before",
                    models.BigIntegerField(verbose_name="boundaries of earlier intervals"),
                ),
                ("n_fired", models.BigIntegerField(verbose_name="fired")),
                ("n_skipped", models.BigIntegerField(verbose_name="skipped")),
                (
                    "expires_us",
                    models.BigIntegerField(null=True, verbose_name="expires after (µs)"),
                ),
                ("priority", models.IntegerField(verbose_name="priority")),
                ("max_attempts", models.IntegerField(verbose_name="max attempts")),
                (
                    "visibility_timeout_s",
                    models.BigIntegerField(verbose_name="visibility timeout (s)"),
                ),
                ("backoff_base_s", models.BigIntegerField(verbose_name="backoff base (s)")),
                ("revision", models.IntegerField(verbose_name="revision")),
                ("declared", models.BooleanField(verbose_name="declared in code")),
                ("codec", models.TextField(verbose_name="codec")),
                ("payload", models.BinaryField(verbose_name="payload")),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "db_table": "alkstore_django_schedule",
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
                "default_manager_name": "objects",
            },
        ),
    ]
