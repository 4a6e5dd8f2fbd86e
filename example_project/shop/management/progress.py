"""How far a command has come: a line that changes on a terminal, a line at times elsewhere."""

from django.core.management.base import OutputWrapper

EVERY = 100


class Progress:
    """Shows ``text`` with a count of the total."""

    def __init__(self, out: OutputWrapper, text: str, total: int) -> None:
        self.out = out
        self.text = text
        self.total = total

    def show(self, done: int) -> None:
        """Tell that ``done`` of the total are done."""
        line = f"{self.text} {done} of {self.total}"
        if self.out.isatty():
            self.out.write(f"\r{line}", ending="\n" if done == self.total else "")
            self.out.flush()
        elif done % EVERY == 0 or done == self.total:
            self.out.write(line)
