"""Client of the rfq-custody service. Amounts are `int` in native units, prices `int` times 1e6."""

from . import models, problems
from ._auth import Auth
from ._client import Client
from ._errors import NoAnswer, NotSent, Problem, WrongTerms
from ._events import decode_event
from ._limits import RateLimit
from ._live import Live, Order
from ._pages import Page, Pages
from ._requests import LiveRequests, OpenRequest
from ._stream import Disconnected, Stream
from ._sync import SyncPages
from ._sync_client import SyncClient, SyncStream
from ._transport import Login
from ._units import cost, format_units, parse_units, price
from ._wire import UNSET

__version__ = "0.1.0"

__all__ = [
    "UNSET",
    "Auth",
    "Client",
    "Disconnected",
    "Live",
    "LiveRequests",
    "Login",
    "NoAnswer",
    "NotSent",
    "OpenRequest",
    "Order",
    "Page",
    "Pages",
    "Problem",
    "RateLimit",
    "Stream",
    "SyncClient",
    "SyncPages",
    "SyncStream",
    "WrongTerms",
    "__version__",
    "cost",
    "decode_event",
    "format_units",
    "models",
    "parse_units",
    "price",
    "problems",
]
