"""Pure rules: no Django, no SQL, no reading of clocks."""
