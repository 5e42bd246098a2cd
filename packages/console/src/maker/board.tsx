/** The open requests of all venues, and a form to quote one of them. */
import type { QuoteRequest } from "@rfq-custody/client";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useBoard } from "../live/board.ts";
import { useAssetName } from "../markets.ts";
import { useClient, useSession } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Countdown } from "../ui/countdown.tsx";
import { SelectField, TextField } from "../ui/form.tsx";
import { Table } from "../ui/table.tsx";
import { parsePrice, parseUnits, sizeOf, worth } from "../units.ts";

/** More rows than anyone reads. Requests beyond it appear once newer ones have ended. */
const SHOWN = 100;

export function Board() {
  const requests = useBoard();
  const nameOf = useAssetName();
  const { session } = useSession();
  const [largest, setLargest] = useState("1,000");
  const others = requests.filter(({ user_id }) => user_id !== session.user_id);
  return (
    <section className="card" aria-label="Board">
      <h2>Open requests of all venues ({others.length})</h2>
      <TextField
        label="Quote at most, in USDC at risk"
        value={largest}
        inputMode="decimal"
        hint="A limit of this page: a quote that would cost more is not sent."
        onChange={(event) => setLargest(event.target.value)}
      />
      <Table
        caption="Requests, newest first"
        rows={others.slice(0, SHOWN)}
        rowKey={({ request_id }) => request_id}
        empty="Nobody asks for a price at the moment."
        columns={[
          ["Market", (request) => nameOf(request)],
          ["They", ({ side }) => THEY[side]],
          ["Size", sizeOf, "number"],
          ["Ends in", ({ expires_at }) => <Countdown until={expires_at} />],
          [
            "Quote",
            (request) => <QuickQuote request={request} name={nameOf(request)} largest={largest} />,
          ],
        ]}
      />
    </section>
  );
}

const THEY: Record<QuoteRequest["side"], string> = {
  Bid: "buy",
  Ask: "sell",
  TwoWay: "want both prices",
};

function QuickQuote({
  request,
  name,
  largest,
}: {
  request: QuoteRequest;
  name: string;
  largest: string;
}) {
  const client = useClient();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [side, setSide] = useState<"Bid" | "Ask">("Bid");
  const twoWay = request.side === "TwoWay";
  const place = async () => {
    const price = parsePrice(text);
    if (price === null) throw new Error("Enter a price in cents, for example 65.25.");
    const most = parseUnits(largest);
    if (most === null) throw new Error("Enter above how much you quote at most.");
    const quoted = request.side === "TwoWay" ? side : request.side;
    if (atRisk(request, quoted, price) > most)
      throw new Error(`This quote risks more than ${largest} USDC. Raise your limit first.`);
    const { request_id } = request;
    await client.rfq.quote({ request_id, price, ...(twoWay ? { side } : {}) });
    setText("");
    await queries.invalidateQueries({ queryKey: ["my-quotes"] });
  };
  return (
    <div className="row tight">
      {twoWay ? (
        <SelectField
          label="Side"
          name="side"
          value={side}
          onChange={(value) => setSide(value === "Ask" ? "Ask" : "Bid")}
          options={{ Bid: "I sell", Ask: "I buy" }}
        />
      ) : null}
      <input
        aria-label={`Price in cents for ${name}`}
        className="price"
        inputMode="decimal"
        placeholder="65.25"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <ActionButton kind="primary" label="Quote" name={`Quote ${name}`} run={place} />
    </div>
  );
}

/** The most the maker can lose: what it pays, or for tokens sold, what they would have won. */
function atRisk({ amount, usdc_amount }: QuoteRequest, side: "Bid" | "Ask", price: number): bigint {
  const tokens = amount ?? ((usdc_amount ?? 0n) * 1_000_000n) / BigInt(price);
  return side === "Ask" ? worth(tokens, price) : worth(tokens, 1_000_000 - price);
}
