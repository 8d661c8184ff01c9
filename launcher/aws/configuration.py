"""A configuration that the SDK trips over: what it raises then, as the errors that it has for this.

The SDK reads the user's configuration without looking first: junk of a `credential_process` ends in json's
error, a token file that is not there in the file's, an endpoint that is no URL in a ValueError.

Imports botocore: to be imported where a client is made, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, CredentialRetrievalError, InvalidConfigError

_TRIPPED = (AttributeError, KeyError, OSError, TypeError, ValueError)


@contextmanager
def configuration_errors() -> Iterator[None]:
    """Around the making of a client, which reads nothing but configuration; raises InvalidConfigError."""
    try:
        yield
    except BotoCoreError:
        raise
    except _TRIPPED as error:
        raise InvalidConfigError(error_msg=_words(error)) from error


def unreadable_credentials(exception: Exception, **_: Any) -> None:
    """A handler of botocore's `after-call-error`; raises CredentialRetrievalError.

    Of what goes on within a call, only the look for credentials raises errors that are not botocore's own:
    those of sending are wrapped by its HTTP session, those of the answer are OddAnswer.
    """
    if isinstance(exception, _TRIPPED) and not isinstance(exception, BotoCoreError):
        raise CredentialRetrievalError(
            provider="the AWS configuration", error_msg=_words(exception)
        ) from exception


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
