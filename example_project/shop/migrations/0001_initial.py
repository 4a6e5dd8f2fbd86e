"""The shop's tables."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Customer",
            fields=[
                ("code", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("company", models.CharField(max_length=200)),
                ("contact", models.CharField(blank=True, max_length=200)),
                ("address", models.CharField(blank=True, max_length=200)),
                ("city", models.CharField(blank=True, max_length=200)),
                ("region", models.CharField(blank=True, max_length=200)),
                ("postal_code", models.CharField(blank=True, max_length=200)),
                ("country", models.CharField(blank=True, max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("number", models.PositiveIntegerField(primary_key=True, serialize=False)),
                ("ordered_on", models.DateField()),
                ("shipped_on", models.DateField(blank=True, null=True)),
                ("freight", models.DecimalField(decimal_places=2, max_digits=12)),
                ("ship_name", models.CharField(blank=True, max_length=200)),
                ("ship_address", models.CharField(blank=True, max_length=200)),
                ("ship_city", models.CharField(blank=True, max_length=200)),
                ("ship_region", models.CharField(blank=True, max_length=200)),
                ("ship_postal_code", models.CharField(blank=True, max_length=200)),
                ("ship_country", models.CharField(blank=True, max_length=200)),
                (
                    "customer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="orders",
                        to="shop.customer",
                    ),
                ),
            ],
            options={
                "ordering": ("number",),
            },
        ),
        migrations.CreateModel(
            name="Product",
            fields=[
                ("number", models.PositiveIntegerField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="Invoice",
            fields=[
                (
                    "order",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="shop.order",
                    ),
                ),
                ("goods", models.DecimalField(decimal_places=4, max_digits=15)),
                ("freight", models.DecimalField(decimal_places=2, max_digits=12)),
                ("total", models.DecimalField(decimal_places=4, max_digits=15)),
                ("html", models.TextField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("order",),
            },
        ),
        migrations.CreateModel(
            name="OrderLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("unit_price", models.DecimalField(decimal_places=2, max_digits=10)),
                ("quantity", models.PositiveIntegerField()),
                ("discount", models.DecimalField(decimal_places=2, max_digits=3)),
                (
                    "order",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lines",
                        to="shop.order",
                    ),
                ),
                (
                    "product",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="shop.product",
                    ),
                ),
            ],
            options={
                "ordering": ("product_id",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("order", "product"), name="one_line_per_product"
                    )
                ],
            },
        ),
    ]
