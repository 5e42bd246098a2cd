"""How scripts/fuzz.ts authenticates schemathesis: like any client that has read the description, with the standard library."""

import base64
import hashlib
import hmac
import json
import os
import random
import time
import urllib.request

import requests
import schemathesis

BASE = os.environ["FUZZ_BASE_URL"]
CREDENTIAL = os.environ["FUZZ_CREDENTIAL"]
TOKEN = os.environ.get("FUZZ_TOKEN", "")
KEY_ID = os.environ.get("FUZZ_API_KEY_ID", "")
SECRET = os.environ.get("FUZZ_SECRET", "")


def any_address() -> str:
    """workerd is reached directly, so we are the proxy that names the caller: everyone comes from elsewhere, and no limit of failed logins is met."""
    return ".".join(["10", *(str(random.randrange(256)) for _ in range(3))])


class Session(requests.auth.AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        ends_sessions = request.method == "DELETE" and request.path_url.startswith("/auth/sessions")
        token = throwaway_token() if ends_sessions else TOKEN
        request.headers["Authorization"] = f"Bearer {token}"
        return request


class ApiKey(requests.auth.AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        timestamp = str(int(time.time() * 1000))
        body = request.body or b""
        if isinstance(body, str):
            body = body.encode()
        message = f"{timestamp}\n{request.method}\n{request.path_url}\n".encode() + body
        digest = hmac.new(SECRET.encode(), message, hashlib.sha256).digest()
        request.headers["APIKEY"] = KEY_ID
        request.headers["X-Hmac-Timestamp"] = timestamp
        request.headers["X-Hmac-Signature"] = base64.b64encode(digest).decode()
        return request


def throwaway_token() -> str:
    """For the call that ends every session of its user: a user of its own."""
    user = {"email": f"{random.randrange(2**64):x}@fuzz.example", "password": f"{random.randrange(2**96):x}-fuzz"}
    headers = {"content-type": "application/json", "cf-connecting-ip": any_address()}
    request = urllib.request.Request(f"{BASE}/auth/register", json.dumps(user).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["access_token"]


schemathesis.auth.set_from_requests(Session() if CREDENTIAL == "session" else ApiKey())


@schemathesis.hook
def before_call(context, case, kwargs):
    case.headers = {**(case.headers or {}), "cf-connecting-ip": any_address()}
