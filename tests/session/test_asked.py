"""What a diagnosis may know of a job, from its request."""

from __future__ import annotations

from launcher.planning.request_view import RequestView
from launcher.session.asked import asked_of

REQUEST = RequestView(
    {
        "ResourceConfig": {"InstanceType": "ml.p3.8xlarge", "InstanceCount": 2, "VolumeSizeInGB": 50},
        "HyperParameters": {"batch_size": "32"},
        "AlgorithmSpecification": {
            "ContainerArguments": ["--processes-per-host", "4", "--", "--num-workers", "8"]
        },
    }
)


def test_hosts_and_numbers_are_those_of_the_request() -> None:
    asked = asked_of(REQUEST)
    assert (asked.instance_type, asked.volume_size_gb) == ("ml.p3.8xlarge", 50)
    assert asked.number(["batch_size"]).value == 32
    assert asked.number(["num_workers"]).value == 8


def test_the_boots_own_options_are_no_numbers_of_the_script() -> None:
    assert asked_of(REQUEST).number(["processes_per_host"]) is None


def test_of_a_run_here_nothing_is_said_of_other_hosts() -> None:
    asked = asked_of(REQUEST, here=True)
    assert (asked.instance_type, asked.volume_size_gb, asked.facts) == (None, None, None)
    assert asked.number(["batch_size"]).value == 32
