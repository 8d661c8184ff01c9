"""Downloads within the script: model hubs, package indexes, public data.

Texts: huggingface_hub (file_download.py, errors.py), transformers (utils/hub.py), urllib3 and requests,
httpx, urllib, torchvision (datasets/mnist.py); as they stand in huggingface/datasets issue 7506,
huggingface/transformers issues 21129 and 34841, yuh-zha/AlignScore issue 17.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Retry

ELSEWHERE = r"(?![\w.-]*(?:amazonaws\.com|wandb|comet\.com|mlflow|neptune|sentry|localhost|127\.0\.0\.1))"
"""AWS's own endpoints have modes of their own, and who cannot be told of the training's progress ends
none."""

NO_WAY = (
    "The hosts have no way to it: subnets without a NAT gateway reach AWS alone. Download beforehand and "
    "give it to the job as an input channel (`inputs`), with HF_HUB_OFFLINE=1 and HF_HOME below it; or give "
    "the subnets a NAT gateway. Where they have one, the server was not there, and the same job may succeed "
    "later."
)
"""Of a server that cannot be reached from hosts on AWS."""
TOKEN = (
    "The model is gated or private, or the token is missing or not allowed to read it: accept its terms with "
    "the account of the token, and name the secret that holds it as HF_TOKEN in the job file's `secrets`, "
    "which stores it nowhere."
)
"""Of what a hub shows to some only."""
UNKNOWN = (
    "Correct the name. The hub also says so of what is private: name the secret that holds a token as "
    "HF_TOKEN in the job file's `secrets`, which stores it nowhere, or copy the model to S3 and read it as "
    "an input channel (`inputs`)."
)
"""Of a name that a hub does not know."""
_UNREACHABLE = (
    r"Name or service not known|Temporary failure in name resolution|Failed to resolve|Network is "
    r"unreachable|"
    r"No route to host|nodename nor servname|timed out|ConnectTimeout|Connection refused|NewConnectionError|"
    r"NameResolutionError"
)

SIGNATURES = (
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="max retries exceeded with url",
        pattern=re.compile(
            r"^(?:\w+\.)*\w*Error: \(?.{0,20}?HTTPS?ConnectionPool\(host='"
            + ELSEWHERE
            + r"(?P<server>[^']{1,200})'"
            r".{0,60}Max retries exceeded with url"
        ),
        example="requests.exceptions.ConnectionError: "
        "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', "
        "port=443): Max retries exceeded with url: /gpt2/resolve/main/config.json (Caused by "
        "NewConnectionError('[Errno 101] Network is unreachable'))\"), '(Request ID: d5fc)')",
        near_miss="wandb: ERROR HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded "
        "with url: /",
        says="{server} cannot be reached from the hosts",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="couldn't connect to 'http",
        pattern=re.compile(
            r"^OSError: We couldn't connect to 'https?://(?P<server>[^'/]{1,200})[^']{0,200}' to load"
        ),
        example="OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
        "find them in the cached files.",
        near_miss="WARNING we couldn't connect to 'https://huggingface.co', using the cache",
        says="{server} cannot be reached from the hosts, and what is wanted is in no cache",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="localentrynotfounderror: ",
        pattern=re.compile(r"^(?:\w+\.)*LocalEntryNotFoundError: (?P<what>.{1,200})"),
        example="huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate "
        "the file on the Hub and we cannot find the requested files in the local cache.",
        near_miss="INFO caught LocalEntryNotFoundError: downloading",
        says="the hub cannot be reached from the hosts, and what is wanted is in no cache",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="<urlopen error ",
        pattern=re.compile(
            r"^(?:urllib\.error\.)?URLError: <urlopen error (?P<why>.{0,40}?(?:" + _UNREACHABLE + r"))"
        ),
        example="urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        near_miss="urllib.error.URLError: <urlopen error unknown url type: s3>",
        says="a download failed: {why}",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="httpx.connect",
        pattern=re.compile(r"^httpx\.Connect(?:Error|Timeout): (?P<why>.{0,40}?(?:" + _UNREACHABLE + r"))"),
        example="httpx.ConnectError: [Errno -2] Name or service not known",
        near_miss="httpx.ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
        says="a server cannot be reached from the hosts: {why}",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="error downloading ",
        pattern=re.compile(r"^RuntimeError: Error downloading (?P<file>[^\s:]{1,200})(?:$|:(?:$| Tried ))"),
        example="RuntimeError: Error downloading train-images-idx3-ubyte.gz: Tried "
        "https://ossci-datasets.s3.amazonaws.com/mnist/, got: <urlopen error [Errno -2] Name or "
        "service not known>",
        near_miss="INFO no error downloading train-images-idx3-ubyte.gz",
        says="the download of {file} failed",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="read timed out",
        pattern=re.compile(
            r"^(?:\w+\.)*(?:ReadTimeout|ReadTimeoutError|ConnectionError): "
            r"\(?.{0,20}?HTTPS?ConnectionPool\(host='"
            + ELSEWHERE
            + r"(?P<server>[^']{1,200})'.{0,40}Read timed out"
        ),
        example="requests.exceptions.ReadTimeout: "
        "(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', "
        "port=443): Read timed out. (read timeout=10)\"), '(Request ID: 1)')",
        near_miss="requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='api.wandb.ai', port=443): "
        "Read timed out.",
        says="{server} did not answer in time",
        retry=Retry.SAME,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal=" for url:",
        pattern=re.compile(
            r"^(?:(?:\w+\.)*\w*Error: )?(?P<status>429 Client|50[0234] Server) Error: .{0,60} for url: "
            r"?https?://" + ELSEWHERE + r"(?P<server>[\w.-]{1,200})",
            re.I,
        ),
        example="requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: "
        "https://huggingface.co/meta-llama/Meta-Llama-3-8B/resolve/main/config.json",
        near_miss="requests.exceptions.HTTPError: 404 Client Error: Not Found for url: "
        "https://huggingface.co/x",
        says="{server} refused: {status} Error",
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal=" client error: ",
        # Of a hub of models only: elsewhere the same numbers are of the script's own requests.
        pattern=re.compile(
            r"^(?:(?:\w+\.)*\w*Error: )?(?P<status>40[13]) Client Error: .{0,60} for url: "
            r"?https?://(?P<server>(?:[\w-]{1,63}\.){0,4}(?:huggingface\.co|hf\.co|hf-mirror\.com))/"
        ),
        example="requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: "
        "https://huggingface.co/org/model/resolve/main/model_index.json",
        near_miss="requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://api.team.io/x",
        says="{server} refused ({status})",
        remedy=TOKEN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="urllib.error.httperror: http error ",
        pattern=re.compile(r"^urllib\.error\.HTTPError: HTTP Error (?P<status>429|50[0234]): "),
        example="urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
        near_miss="urllib.error.HTTPError: HTTP Error 404: Not Found",
        says="a download was refused: HTTP error {status}",
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="reqwest error: http status ",
        # Hugging Face's transfers in Rust (hf_xet, hf_transfer).
        pattern=re.compile(
            r"\bReqwest Error: HTTP status (?:client|server) error \((?P<status>429|50[0234]) [\w ]{1,40}\)"
        ),
        example="RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status client "
        "error (429 Too Many Requests)",
        near_miss="Reqwest Error: HTTP status client error (404 Not Found)",
        says="a download was refused: HTTP error {status}",
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="gated repo",
        pattern=re.compile(r"^(?:(?:\w+\.)*\w*Error: )?You are trying to access a gated repo"),
        example="OSError: You are trying to access a gated repo.",
        near_miss="INFO this is no gated repo",
        says="the hub refuses a gated model",
        remedy=TOKEN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="hfhubhttperror: 403 forbidden: ",
        pattern=re.compile(r"^(?:\w+\.)*HfHubHTTPError: 403 Forbidden: "),
        example="huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: None.",
        near_miss="INFO HfHubHTTPError: 403 Forbidden: is raised for gated models",
        says="the hub refuses (403)",
        remedy=TOKEN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="gatedrepoerror: ",
        pattern=re.compile(r"^(?:\w+\.)*GatedRepoError: (?P<status>40[13])"),
        example="huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1)",
        near_miss="INFO GatedRepoError: 401 is raised for gated models",
        says="the hub refuses a gated model ({status})",
        remedy=TOKEN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="httpx.readtimeout",
        pattern=re.compile(r"^httpx\.ReadTimeout: The read operation timed out"),
        example="httpx.ReadTimeout: The read operation timed out",
        near_miss="INFO caught httpx.ReadTimeout, asking again",
        says="a server did not answer in time",
        retry=Retry.SAME,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="is not a valid model identifier listed on",
        # What begins as a path was looked for on this host.
        pattern=re.compile(
            r"^OSError: (?P<model>[\w-][\w./-]{0,300}) is not a local folder and is not a valid model "
            r"identifier listed on"
        ),
        example="OSError: org/model-7b is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'",
        near_miss="OSError: /opt/ml/model is not a local folder and is not a valid model identifier listed "
        "on 'https://huggingface.co/models'",
        says="there is no folder {model}, and the hub knows no such model, or not for this token",
        remedy=UNKNOWN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="notfounderror: 40",
        pattern=re.compile(
            r"^(?:\w+\.)*(?P<what>Repository|Revision|(?:Remote)?Entry)NotFoundError: (?P<status>401|404)\b"
        ),
        example="huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)",
        near_miss="INFO RepositoryNotFoundError: 401 is raised for private ones",
        says="the hub has no such thing, or not for this token ({what}, {status})",
        remedy=UNKNOWN,
        retry=Retry.NEVER,
    ),
)
