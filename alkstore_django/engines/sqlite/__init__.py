"""The SQLite engine: single-statement claims, a ``data_version`` watcher as wake."""
