from pathlib import Path

from alkstore_django import Queue

letters = Queue("letters")


@letters.handler
def post(job):
    with Path("posted.txt").open("a", encoding="utf-8") as posted:
        posted.write(f"{job.payload['to']}\n")
