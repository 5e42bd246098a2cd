#!/usr/bin/env python3
"""A signed call with Python's standard library:

    python3 examples/sign.py <METHOD> <PATH_AND_QUERY> [BODY]
    python3 examples/sign.py GET '/custody/get-ledger?limit=5'
    python3 examples/sign.py POST /rfq/accept '{"quote_id":"…"}'

RFQ_URL, RFQ_API_KEY_ID and RFQ_SECRET come from the environment. With another HTTP library you need
only `sign`.
"""

import base64
import hashlib
import hmac
import os
import sys
import time
import urllib.error
import urllib.request


def sign(
    secret: str, timestamp_ms: int, method: str, path_and_query: str, body: bytes = b""
) -> str:
    """Returns the value of X-Hmac-Signature. `body` must be the bytes that are sent, because JSON
    that is serialised twice may differ."""
    message = f"{timestamp_ms}\n{method}\n{path_and_query}\n".encode() + body
    # The key is the text of the secret. It is not decoded.
    return base64.b64encode(hmac.new(secret.encode(), message, hashlib.sha256).digest()).decode()


def setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        print(f"Set {name}. examples/README.md says how.", file=sys.stderr)
        sys.exit(2)
    return value


def call(method: str, path_and_query: str, body: bytes = b"") -> tuple[int, str]:
    """Returns the status and body of the response, also of a problem (RFC 9457)."""
    timestamp_ms = int(time.time() * 1000)
    headers = {
        "APIKEY": setting("RFQ_API_KEY_ID"),
        "X-Hmac-Timestamp": str(timestamp_ms),
        "X-Hmac-Signature": sign(setting("RFQ_SECRET"), timestamp_ms, method, path_and_query, body),
    }
    if body:
        headers["content-type"] = "application/json"
    url = setting("RFQ_URL") + path_and_query
    request = urllib.request.Request(url, body or None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    method, path_and_query, *rest = sys.argv[1:]
    try:
        status, text = call(method, path_and_query, rest[0].encode() if rest else b"")
    except urllib.error.URLError as error:
        sys.exit(f"{setting('RFQ_URL')} does not respond: {error.reason}")
    print(text)
    sys.exit(0 if status < 400 else 1)
