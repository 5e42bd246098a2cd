"""How scripts/fuzz.ts authenticates schemathesis: like any client that has read the description, with the standard library."""

import base64
import hashlib
import hmac
import json
import os
import time
import urllib.request
import uuid

import requests
import schemathesis

BASE = os.environ["FUZZ_BASE_URL"]
CREDENTIAL = os.environ["FUZZ_CREDENTIAL"]
TOKEN = os.environ["FUZZ_TOKEN"]
KEY = (os.environ["FUZZ_API_KEY_ID"], os.environ["FUZZ_SECRET"])


def any_address() -> str:
    """workerd is reached directly, so we say where a caller is, as Cloudflare would: everyone comes from elsewhere, and
    no limit of failed logins is met."""
    return "10." + ".".join(str(byte) for byte in uuid.uuid4().bytes[:3])


class Session(requests.auth.AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        ends_sessions = request.method == "DELETE" and request.path_url.startswith("/auth/sessions")
        request.headers["Authorization"] = f"Bearer {new_token() if ends_sessions else TOKEN}"
        return request


class ApiKey(requests.auth.AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        revokes_keys = request.method == "DELETE" and request.path_url.startswith("/auth/api-keys")
        key_id, secret = new_key() if revokes_keys else KEY
        timestamp = str(int(time.time() * 1000))
        body = request.body or b""
        if isinstance(body, str):
            body = body.encode()
        message = f"{timestamp}\n{request.method}\n{request.path_url}\n".encode() + body
        digest = hmac.new(secret.encode(), message, hashlib.sha256).digest()
        request.headers["APIKEY"] = key_id
        request.headers["X-Hmac-Timestamp"] = timestamp
        request.headers["X-Hmac-Signature"] = base64.b64encode(digest).decode()
        return request


def new_token() -> str:
    """Of a user of its own, for a call that ends every session of its user."""
    user = {"email": f"{uuid.uuid4()}@fuzz.example", "password": str(uuid.uuid4())}
    return post("/auth/register", user, {})["access_token"]


def new_key() -> tuple[str, str]:
    """Likewise, for a call that revokes keys."""
    session = {"authorization": f"Bearer {new_token()}"}
    key = post("/auth/api-keys", {"label": "fuzz", "scopes": ["read"]}, session)
    return key["api_key_id"], key["secret"]


def post(path: str, body: dict, headers: dict) -> dict:
    headers = {"content-type": "application/json", "cf-connecting-ip": any_address(), **headers}
    with urllib.request.urlopen(urllib.request.Request(BASE + path, json.dumps(body).encode(), headers)) as response:
        return json.load(response)


schemathesis.auth.set_from_requests(Session() if CREDENTIAL == "session" else ApiKey())


@schemathesis.hook
def before_call(context, case, kwargs):
    case.headers = {**(case.headers or {}), "cf-connecting-ip": any_address()}
