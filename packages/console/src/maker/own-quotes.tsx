import type { Quote } from "@rfq-custody/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Countdown } from "../ui/countdown.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, formatUnits, parsePrice } from "../units.ts";

const LISTED = 100;

/** The maker's open quotes, each with a new price to replace it by. */
export function OwnQuotes() {
  const client = useClient();
  const queries = useQueryClient();
  const nameOf = useAssetName();
  const { data: quotes } = useQuery({
    queryKey: ["my-quotes", "open"],
    queryFn: async () =>
      (await client.rfq.myQuotes({ status: "open", limit: LISTED }).page()).items,
  });
  return (
    <section className="card" aria-label="Own quotes">
      <h2>Your open quotes</h2>
      <Table
        caption="Open quotes, newest first"
        rows={quotes}
        rowKey={({ quote_id }) => quote_id}
        empty="You have no open quotes."
        columns={[
          ["Market", (quote) => nameOf(quote)],
          ["You", ({ side }) => (side === "Bid" ? "sell" : "buy")],
          ["Amount", ({ amount }) => formatUnits(amount), "number"],
          ["Price", ({ price }) => formatPrice(price), "number"],
          ["Ends in", ({ expires_at }) => <Countdown until={expires_at} />],
          ["Replace", (quote) => <Replace quote={quote} />],
          [
            "Cancel",
            ({ quote_id, price }) => (
              <ActionButton
                label="Cancel"
                name={`Cancel the quote at ${formatPrice(price)}`}
                run={async () => {
                  await client.rfq.cancelQuote({ quote_id });
                  await queries.invalidateQueries({ queryKey: ["my-quotes"] });
                }}
              />
            ),
          ],
        ]}
      />
    </section>
  );
}

function Replace({ quote }: { quote: Quote }) {
  const client = useClient();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const { quote_id: replaces, request_id, side } = quote;
  return (
    <div className="row tight">
      <input
        aria-label={`New price for the quote at ${formatPrice(quote.price)}`}
        className="price"
        inputMode="decimal"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <ActionButton
        label="Replace"
        name={`Replace the quote at ${formatPrice(quote.price)}`}
        run={async () => {
          const price = parsePrice(text);
          if (price === null) throw new Error("Enter a price in cents, for example 65.25.");
          await client.rfq.quote({ request_id, price, side, replaces });
          setText("");
          await queries.invalidateQueries({ queryKey: ["my-quotes"] });
        }}
      />
    </div>
  );
}
