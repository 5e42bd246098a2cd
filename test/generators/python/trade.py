"""Logs in and trades. Uses nothing but the client of openapi-python-client, generated as `rfq`."""

import json
import sys

from rfq import AuthenticatedClient, Client
from rfq.api.auth import login
from rfq.api.custody import get_usdc_balance
from rfq.api.rfq import accept_quote, create_quote, create_request, list_quotes_on_request
from rfq.models import (
    AcceptQuoteBodyByQuoteId,
    LoginBody,
    Match,
    Problem,
    Quote,
    QuotePage,
    QuoteTerms,
    RequestItem,
    RequestSide,
    RequestTermsByAmount,
    Session,
    UsdcBalance,
)

base_url, requester_email, requester_password, maker_email, maker_password, asset_id = sys.argv[1:]


def expect(kind, answer):
    """The response, if it is of this kind. Ends the program with the problem otherwise."""
    if isinstance(answer, kind):
        return answer
    sys.exit(f"{answer.code}: {answer.detail}" if isinstance(answer, Problem) else repr(answer))


def signed_in(email, password):
    body = LoginBody(email=email, password=password)
    session = expect(Session, login.sync(client=Client(base_url=base_url), body=body))
    return AuthenticatedClient(base_url=base_url, token=session.access_token)


taker = signed_in(requester_email, requester_password)
maker = signed_in(maker_email, maker_password)
balance = expect(UsdcBalance, get_usdc_balance.sync(client=taker))
request = expect(
    RequestItem,
    create_request.sync(
        client=taker,
        body=RequestTermsByAmount(
            venue_id="venue_one",
            asset_id=asset_id,
            amount="1000000",
            side=RequestSide.BID,
        ),
    ),
)
quote = expect(
    Quote,
    create_quote.sync(
        client=maker,
        body=QuoteTerms(request_id=request.request_id, price=650_000),
    ),
)
page = expect(
    QuotePage, list_quotes_on_request.sync(client=taker, request_id=request.request_id)
)
assert [item.quote_id for item in page.items] == [quote.quote_id]
accept = AcceptQuoteBodyByQuoteId(quote_id=quote.quote_id)
match = expect(Match, accept_quote.sync(client=taker, body=accept))
again = accept_quote.sync(client=maker, body=accept)
assert isinstance(again, Problem), again
print(
    json.dumps(
        {
            "balance": balance.balance,
            "price": match.price,
            "cost": match.usdc_amount,
            "problem": str(again.code),
        }
    )
)
