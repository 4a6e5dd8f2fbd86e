"""The raw rows: bare statements through the driver, one file per engine."""
