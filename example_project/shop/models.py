"""Customers, orders, invoices, and sales per country.

Amounts are decimals of at most 15 digits, which SQLite, too, gives back as they were
stored. Add them up in Python: its own SUM() would add floating-point numbers.
"""

from decimal import Decimal

from django.db import models

from shop.invoicing import goods_of


class Customer(models.Model):
    """Who buys; known by the short code of the customer list."""

    code = models.CharField(max_length=200, primary_key=True)
    company = models.CharField(max_length=200)
    contact = models.CharField(max_length=200, blank=True)
    address = models.CharField(max_length=200, blank=True)
    city = models.CharField(max_length=200, blank=True)
    region = models.CharField(max_length=200, blank=True)
    postal_code = models.CharField(max_length=200, blank=True)
    country = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return self.company


class Product(models.Model):
    """What is sold."""

    number = models.PositiveIntegerField(primary_key=True)
    name = models.CharField(max_length=200)

    def __str__(self) -> str:
        return self.name


class OrderQuerySet(models.QuerySet["Order"]):
    def for_invoice(self) -> "OrderQuerySet":
        """With all that an invoice shows, in three statements."""
        return self.select_related("customer").prefetch_related("lines__product")


class Order(models.Model):
    """One order; its lines are in ``order.lines``, its invoice, once made, in ``order.invoice``."""

    number = models.PositiveIntegerField(primary_key=True)
    customer = models.ForeignKey(Customer, on_delete=models.PROTECT, related_name="orders")
    ordered_on = models.DateField()
    shipped_on = models.DateField(null=True, blank=True)
    freight = models.DecimalField(max_digits=12, decimal_places=2)
    ship_name = models.CharField(max_length=200, blank=True)
    ship_address = models.CharField(max_length=200, blank=True)
    ship_city = models.CharField(max_length=200, blank=True)
    ship_region = models.CharField(max_length=200, blank=True)
    ship_postal_code = models.CharField(max_length=200, blank=True)
    ship_country = models.CharField(max_length=200, blank=True)

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ("number",)

    def __str__(self) -> str:
        return f"Order {self.number}"


class OrderLine(models.Model):
    """So many of one product, at the price and discount of that day."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.PROTECT, related_name="+")
    unit_price = models.DecimalField(max_digits=10, decimal_places=2)
    quantity = models.PositiveIntegerField()
    discount = models.DecimalField(max_digits=3, decimal_places=2)

    class Meta:
        ordering = ("product_id",)
        constraints = (
            models.UniqueConstraint(fields=("order", "product"), name="one_line_per_product"),
        )

    def __str__(self) -> str:
        return f"{self.quantity} x product {self.product_id}"

    @property
    def goods(self) -> Decimal:
        """The price of the line, net of its discount, unrounded."""
        return goods_of(self)


class Invoice(models.Model):
    """What an order costs, and the page that the customer gets."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE, primary_key=True)
    goods = models.DecimalField(max_digits=15, decimal_places=4)
    freight = models.DecimalField(max_digits=12, decimal_places=2)
    total = models.DecimalField(max_digits=15, decimal_places=4)
    html = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("order",)

    def __str__(self) -> str:
        return f"Invoice {self.order_id}"


class CountrySales(models.Model):
    """What the customers of one country have bought, as of the last refresh."""

    country = models.CharField(max_length=200, primary_key=True)
    orders = models.PositiveIntegerField()
    goods = models.DecimalField(max_digits=15, decimal_places=4)

    class Meta:
        ordering = ("-goods", "country")

    def __str__(self) -> str:
        return f"Sales to {self.country}"
