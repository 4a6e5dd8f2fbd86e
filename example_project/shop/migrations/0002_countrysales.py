"""Sales per country."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("shop", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CountrySales",
            fields=[
                ("country", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("orders", models.PositiveIntegerField()),
                ("goods", models.DecimalField(decimal_places=4, max_digits=15)),
            ],
            options={
                "ordering": ("-goods", "country"),
            },
        ),
    ]
