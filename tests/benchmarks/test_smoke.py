"""The benchmarks run from end to end, at sizes that measure nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measuring import BrokenMeasurement, Metric, Result, expect

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300
NAMES = {
    "enqueue_in_atomic": "jobs/s",
    "enqueue_to_bare_insert": "jobs/s",
    "enqueue_many": "jobs/s",
    "commit_rate": "jobs/s",
    "drain": "jobs/s",
    "drain_2_processes": "jobs/s",
    "drain_deep_backlog": "jobs/s",
    "drain_behind_delayed": "jobs/s",
    "drain_held_snapshot": "jobs/s",
    "relay": "events/s",
    "relay_2_processes": "events/s",
    "relay_batch": "events/s",
    "relay_keyed": "events/s",
    "relay_keyed_2_processes": "events/s",
    "relay_keyed_batch": "events/s",
    "worker_memory": "MB",
    "idle_cpu": "%",
    "idle_statements": "/min",
    "schedules_due": "jobs/s",
    "scheduler_memory": "MB",
    "wake_latency_p50": "ms",
    "wake_latency_p99": "ms",
}


@pytest.mark.slow
def test_quick_run_measures_every_benchmark_on_both_engines(tmp_path: Path) -> None:
    """BENCH The results are a list of objects, one per benchmark and engine, raw beside each."""
    output = tmp_path / "latest.json"
    hidden = {"DJANGO_SETTINGS_MODULE", "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--runs", "1", "--output", str(output)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(output.read_text())
    assert {(result["name"], result["engine"]) for result in results} == {
        (name, engine) for name in NAMES for engine in ("sqlite", "postgres")
    }
    for result in results:
        assert list(result) == ["name", "engine", "value", "unit", "raw", "ratio", "runs"]
        assert result["unit"] == NAMES[result["name"]]
        least = -1 if result["name"].startswith("idle_") else 0  # nothing to do may cost nothing
        assert min(result["value"], result["raw"]) > least and result["ratio"] >= 0
        assert result["runs"] == 1
        assert result["name"] in done.stdout


@pytest.mark.parametrize(("higher_is_better", "ratio"), [(True, 2.0), (False, 0.5)])
def test_a_ratio_above_one_is_faster_than_raw(higher_is_better: bool, ratio: float) -> None:
    """BENCH A ratio says how fast the package is for a raw of 1.00, whatever the unit."""
    metric = Metric("any", "unit", higher_is_better)
    result = Result(metric, "sqlite", package_values=[1, 4, 9], raw_values=[2, 2, 2])
    assert (result.value, result.raw, result.ratio) == (4, 2, ratio)


def test_a_count_that_is_wrong_breaks_the_measurement() -> None:
    """BENCH Lost or left jobs fail loudly, whatever the speed."""
    expect("jobs left", 0, 0)
    with pytest.raises(BrokenMeasurement, match="jobs left: 3 instead of 0"):
        expect("jobs left", 3, 0)
