"""Whether the training image is there (IMG001)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import images
from launcher.failure_modes.model import Finding, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, known


@live_rule(images.IMAGE_UNAVAILABLE, "image")
def image_exists(subject: LiveSubject) -> Iterator[Finding]:
    """The registry has the tag or digest, and is in the job's region."""
    image, region = known(subject.account.image), subject.account.region
    if image is None:
        return
    if not image.exists:
        yield _finding(subject, image.uri, f"the registry has no image {image.uri}")
    elif image.region not in (None, region):
        yield _finding(subject, image.uri, f"the image {image.uri} is in {image.region}, the job in {region}")


def _finding(subject: LiveSubject, uri: str, problem: str) -> Finding:
    return images.IMAGE_UNAVAILABLE.at(
        ("image" if subject.job is None or subject.job.image is not None else "framework",),
        f"{problem}: the job would be refused, or fail after waiting for its hosts",
        stage=Stage.LIVE,
        subject=uri,
    )
