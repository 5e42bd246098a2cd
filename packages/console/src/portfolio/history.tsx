import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useAssetName, useConfig } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { SelectField } from "../ui/form.tsx";
import { emptyText } from "../ui/empty-text.ts";
import { PageButtons, usePages } from "../ui/pages.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";
import { formatPrice, formatUnits } from "../units.ts";

const ROWS = 25;

/** The user's matches, with filters. */
export function History() {
  const client = useClient();
  const nameOf = useAssetName();
  const { data: config } = useConfig();
  const [role, setRole] = useState("");
  const [venue, setVenue] = useState("");
  const pages = usePages([role, venue]);
  const venueId = config?.venues.find(({ venue_id }) => venue_id === venue)?.venue_id;
  const { data: page } = useQuery({
    queryKey: ["matches", role, venue, pages.cursor],
    queryFn: () =>
      client.rfq
        .matches({
          limit: ROWS,
          ...(role === "requester" || role === "maker" ? { role } : {}),
          ...(venueId === undefined ? {} : { venue_id: venueId }),
          ...pages.position,
        })
        .page(),
  });
  return (
    <section className="card" aria-label="Trades">
      <h2>Trades</h2>
      <div className="row">
        <SelectField
          label="Role"
          name="role"
          value={role}
          onChange={setRole}
          options={[
            { value: "", text: "Both" },
            { value: "requester", text: "I asked" },
            { value: "maker", text: "I quoted" },
          ]}
        />
        <SelectField
          label="Venue"
          name="venue"
          value={venue}
          onChange={setVenue}
          options={[
            { value: "", text: "All" },
            ...(config?.venues ?? []).map(({ venue_id }) => ({ value: venue_id, text: venue_id })),
          ]}
        />
      </div>
      <Table
        caption="Your trades, newest first"
        rows={page?.items}
        rowKey={({ match_id, role: side }) => `${match_id} ${side}`}
        empty={emptyText(page, "No trades yet.")}
        columns={[
          { title: "Time", cell: ({ created_at }) => <When at={created_at} /> },
          { title: "Market", cell: (match) => nameOf(match) },
          {
            title: "Side",
            cell: ({ side, role: as }) =>
              (side === "Bid") === (as === "requester") ? "Bought" : "Sold",
          },
          { title: "Amount", cell: ({ amount }) => formatUnits(amount), number: true },
          { title: "Price", cell: ({ price }) => formatPrice(price), number: true },
          { title: "USDC", cell: ({ usdc_amount }) => formatUnits(usdc_amount), number: true },
          { title: "Fee", cell: ({ fee }) => formatUnits(fee), number: true },
        ]}
      />
      <PageButtons pages={pages} next={page?.next_cursor} />
    </section>
  );
}
