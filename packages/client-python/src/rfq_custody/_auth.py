"""The signature of a request with an API key. Usable alone, with httpx2 or with any HTTP client."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Generator

import httpx2


class Auth(httpx2.Auth):
    """Signs requests with an API key: `httpx2.AsyncClient(auth=Auth(key_id, secret))`.

    The signature is the Base64 of HMAC-SHA256 over `{timestamp_ms}\\n{METHOD}\\n{target}\\n{body}`.
    The key is the text of the secret, not decoded.

    Args:
        api_key_id: Id of the key, sent in the header APIKEY.
        secret: The secret as `create_api_key` returned it.
    """

    requires_request_body = True

    def __init__(self, api_key_id: str, secret: str) -> None:
        self.api_key_id = api_key_id
        self._key = secret.encode()
        self.offset_ms = 0
        """The clock of the service minus ours."""

    def __repr__(self) -> str:
        return f"Auth({self.api_key_id!r})"

    def headers(
        self, method: str, target: str, body: bytes = b"", *, timestamp_ms: int | None = None
    ) -> dict[str, str]:
        """The three headers of a request.

        Args:
            method: In any case.
            target: Path and query exactly as they are sent.
            body: Exactly as it is sent. Default: none.
            timestamp_ms: Milliseconds since 1970 by the service's clock. Default: now.
        """
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000 + self.offset_ms
        message = f"{timestamp_ms}\n{method.upper()}\n{target}\n".encode() + body
        digest = hmac.digest(self._key, message, hashlib.sha256)
        return {
            "APIKEY": self.api_key_id,
            "X-Hmac-Timestamp": str(timestamp_ms),
            "X-Hmac-Signature": base64.b64encode(digest).decode(),
        }

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        target = request.url.raw_path.decode("ascii")
        request.headers.update(self.headers(request.method, target, request.content))
        yield request
