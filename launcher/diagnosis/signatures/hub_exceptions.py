"""What clients of model hubs raise: exceptions whose name, or first words, say that a hub did not deliver.

Texts: huggingface_hub 0.14 to 1.0 (errors.py, file_download.py, utils/_headers.py), datasets 2.0 to 4.0
(exceptions.py, load.py, utils/file_utils.py), hf_xet, aiohttp's client_exceptions.py.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.hubs import ELSEWHERE, NO_WAY, TOKEN, UNKNOWN
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Retry

_OFFLINE = (
    "Download it beforehand, and give it to the job as an input channel (`inputs`) with HF_HOME below it; or "
    "take HF_HUB_OFFLINE out of `environment` where the subnets have a way out."
)

SIGNATURES = (
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="offlinemodeisenabled: ",
        pattern=re.compile(r"^(?:\w+\.)*OfflineModeIsEnabled: (?P<why>\S.{0,200})"),
        example="huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach "
        "https://huggingface.co/api/models/gpt2: offline mode is enabled.",
        near_miss="INFO OfflineModeIsEnabled: reading the cache",
        says="the hub is not asked, as HF_HUB_OFFLINE is set, and what is wanted is in no cache: {why}",
        remedy=_OFFLINE,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="localtokennotfounderror: ",
        pattern=re.compile(r"^(?:\w+\.)*LocalTokenNotFoundError: \S"),
        example="huggingface_hub.errors.LocalTokenNotFoundError: Token is required (`token=True`), but no "
        "token found.",
        near_miss="INFO caught LocalTokenNotFoundError: asking without",
        says="the hub asks for a token, and the job has none",
        remedy=TOKEN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="datasetnotfounderror: ",
        pattern=re.compile(r"^(?:\w+\.)*DatasetNotFoundError: (?P<why>\S.{0,200})"),
        example="datasets.exceptions.DatasetNotFoundError: Dataset 'acme/corpus' doesn't exist on the Hub "
        "or cannot be accessed.",
        near_miss="INFO caught DatasetNotFoundError: making it",
        says="the hub has no such data set, or not for this token: {why}",
        remedy=UNKNOWN,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="hfhubhttperror: ",
        pattern=re.compile(r"^(?:\w+\.)*HfHubHTTPError: (?P<why>\S.{0,200})"),
        example="huggingface_hub.errors.HfHubHTTPError: 500 Server Error: Internal Server Error",
        near_miss="INFO caught HfHubHTTPError: asking again",
        says="the hub refused: {why}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="couldn't reach ",
        pattern=re.compile(r"^(?:\w+\.)*ConnectionError: Couldn't reach '?(?P<what>[^\s']{1,300})"),
        example="ConnectionError: Couldn't reach 'acme/corpus' on the Hub (LocalEntryNotFoundError)",
        near_miss="INFO couldn't reach 'acme/corpus', using the cache",
        says="{what} cannot be reached from the hosts",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="server disconnected",
        pattern=re.compile(
            r"^(?:ConnectionError|(?:\w+\.)*ServerDisconnectedError): Server [Dd]isconnected$"
        ),
        example="ConnectionError: Server Disconnected",
        near_miss="INFO Server disconnected, asking again",
        says="a server closed the connection while data were read from it",
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="cannot connect to host ",
        pattern=re.compile(
            r"^(?:\w+\.)*ClientConnector\w{0,40}Error: Cannot connect to host "
            + ELSEWHERE
            + r"(?P<server>[\w.-]{1,200}):"
        ),
        example="aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host huggingface.co:443 "
        "ssl:default [Connect call failed ('13.32.1.5', 443)]",
        near_miss="aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host localhost:8265",
        says="{server} cannot be reached from the hosts",
        remedy=NO_WAY,
        retry=Retry.NEVER,
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="consistency check failed: file should be of size",
        pattern=re.compile(
            r"Error: Consistency check failed: file should be of size (?P<size>\d{1,20}) but has size "
            r"(?P<got>\d{1,20})"
        ),
        example="OSError: Consistency check failed: file should be of size 9877 but has size 4123 "
        "(model.safetensors).",
        near_miss="INFO Consistency check failed: file should be of size 3, reading it again",
        says="a download ended too early: {got} of {size} bytes",
    ),
    Signature(
        mode=job_runtime.HUB_UNREACHABLE,
        role=LineRole.INITIATOR,
        literal="error: ",
        # With the disk full it says the same, and then why: those rows are not vague.
        pattern=re.compile(
            r"^(?:RuntimeError: (?P<why>Data processing error: CAS \w{1,20} [Ee]rror ?: .{1,200}|An "
            r"error occurred while "
            r"downloading using `hf_transfer`)|CondaHTTPError: (?P<conda>.{1,200}))"
        ),
        example="RuntimeError: Data processing error: CAS service error : ReqwestMiddleware Error: Request "
        "failed after 5 retries",
        near_miss="INFO Data processing error: CAS service error : asking again",
        says="the hub's storage did not deliver: {why}",
        vague=True,
    ),
)
