"""The engines: the only code that knows a database.

``base`` is the contract, ``registry`` chooses, ``postgres`` and ``sqlite`` fulfil. The two
are siblings: neither inherits from, delegates to, or falls back on the other. Their
``sql.py`` files are twins and may be read side by side.
"""
