/** The user's open requests with the quotes on them, best first. */
import type { Match, Quote, QuoteRequest } from "@rfq-custody/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Countdown, clock } from "../ui/countdown.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, formatUnits, sizeOf } from "../units.ts";
import { Receipt } from "./receipt.tsx";

/** The service settles an acceptance before this time has passed, or never. */
const ACCEPT_WITHIN_MS = 5_000;

export function OpenRequests() {
  const client = useClient();
  const [receipt, setReceipt] = useState<Match | null>(null);
  const { data: requests } = useQuery({
    queryKey: ["my-requests"],
    queryFn: async () => (await client.rfq.myRequests({ limit: 20 }).page()).items,
  });
  return (
    <section className="card" aria-label="Open requests">
      <h2>Open requests</h2>
      {receipt === null ? null : <Receipt match={receipt} close={() => setReceipt(null)} />}
      {requests?.length === 0 ? <p>Quotes on your requests appear here.</p> : null}
      {requests?.map((request) => (
        <OpenRequest key={request.request_id} request={request} onMatch={setReceipt} />
      ))}
    </section>
  );
}

function OpenRequest({
  request,
  onMatch,
}: {
  request: QuoteRequest;
  onMatch: (match: Match) => void;
}) {
  const client = useClient();
  const queries = useQueryClient();
  const nameOf = useAssetName();
  const { request_id } = request;
  const { data: quotes } = useQuery({
    queryKey: ["quotes", request_id],
    queryFn: async () =>
      (await client.rfq.quotes({ request_id, status: "open", limit: 20 }).page()).items,
  });
  const accept = async (quote: Quote) => {
    const deadline = new Date(Date.now() + clock.offsetMs + ACCEPT_WITHIN_MS);
    onMatch(await client.rfq.accept({ quote_id: quote.quote_id, not_after: deadline }));
    await queries.invalidateQueries();
  };
  return (
    <article className="request">
      <h3>
        {VERBS[request.side]} {sizeOf(request)}
        {request.amount === undefined ? " of " : " "}
        {nameOf(request)}
      </h3>
      <p>
        Ends in <Countdown until={request.expires_at} />{" "}
        <ActionButton
          label="Cancel"
          name={`Cancel the request for ${nameOf(request)}`}
          run={async () => {
            await client.rfq.cancelRequest({ request_id });
            await queries.invalidateQueries({ queryKey: ["my-requests"] });
          }}
        />
      </p>
      <Table
        caption="Quotes, best first"
        rows={quotes}
        rowKey={({ quote_id }) => quote_id}
        empty="No open quotes yet."
        columns={[
          { title: "Price", cell: ({ price }) => formatPrice(price), number: true },
          { title: "You", cell: ({ side }) => (side === "Bid" ? "pay" : "receive") },
          {
            title: "USDC, with fees",
            cell: (quote) => formatUnits(total(quote)),
            number: true,
          },
          { title: "Ends in", cell: ({ expires_at }) => <Countdown until={expires_at} /> },
          {
            title: "Accept",
            cell: (quote) => (
              <ActionButton
                kind="primary"
                label={quote.side === "Bid" ? "Buy" : "Sell"}
                name={`${quote.side === "Bid" ? "Buy" : "Sell"} at ${formatPrice(quote.price)}`}
                run={() => accept(quote)}
              />
            ),
          },
        ]}
      />
    </article>
  );
}

const VERBS: Record<QuoteRequest["side"], string> = { Bid: "Buy", Ask: "Sell", TwoWay: "Trade" };

/** What the requester pays or receives. The service computed both parts. */
function total({ side, usdc_amount, fee }: Quote): bigint {
  return side === "Bid" ? usdc_amount + fee : usdc_amount - fee;
}
