/** The ledger with its filters, the chart of the USDC balance, and the statement as a file. */
import type { LedgerFilter, LedgerReason } from "@rfq-custody/client";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { emptyText } from "../ui/empty-text.ts";
import { Form, type FormValues, SelectField, TextField } from "../ui/form.tsx";
import { PageButtons, usePages } from "../ui/pages.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";
import { formatUnits, parseUnits, shortId } from "../units.ts";
import { BalanceChart } from "./balance-chart.tsx";

const ROWS = 50;
const REASONS: readonly LedgerReason[] = [
  "deposit",
  "withdrawal",
  "reserve_rfq",
  "reserve_trade",
  "release",
  "trade",
  "fee",
];

export function Ledger({ reference }: { reference: string | undefined }) {
  const client = useClient();
  const nameOf = useAssetName();
  const [filter, setFilter] = useState<LedgerFilter>(
    reference === undefined ? {} : { ref_id: reference },
  );
  const key = JSON.stringify(filter, (_, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  const pages = usePages([key]);
  const { data: page } = useQuery({
    queryKey: ["ledger", key, pages.cursor],
    queryFn: () => client.custody.ledger({ limit: ROWS, ...filter, ...pages.position }).page(),
  });
  return (
    <section className="card" aria-label="Ledger">
      <h2>Ledger</h2>
      <BalanceChart />
      <LedgerForm apply={setFilter} reference={reference} />
      <ActionButton label="Download as CSV" run={() => download(client, filter)} />
      <Table
        caption="Ledger entries, newest first"
        rows={page?.items}
        rowKey={({ entry_id }) => String(entry_id)}
        empty={emptyText(page, "No entries match.")}
        columns={[
          { title: "Entry", cell: ({ entry_id }) => entry_id, number: true },
          { title: "Time", cell: ({ created_at }) => <When at={created_at} /> },
          {
            title: "Asset",
            cell: ({ venue, asset_id }) => nameOf({ venue_id: venue, asset_id }),
          },
          { title: "Account", cell: ({ account }) => account },
          { title: "Reason", cell: ({ reason }) => reason.replaceAll("_", " ") },
          { title: "Change", cell: ({ delta }) => formatUnits(delta), number: true },
          {
            title: "Balance after",
            cell: ({ balance_after }) => formatUnits(balance_after),
            number: true,
          },
          {
            title: "Reference",
            cell: ({ ref_id }) => <code title={ref_id}>{shortId(ref_id)}</code>,
          },
        ]}
      />
      <PageButtons pages={pages} next={page?.next_cursor} />
    </section>
  );
}

function LedgerForm({
  apply,
  reference,
}: {
  apply: (filter: LedgerFilter) => void;
  reference: string | undefined;
}) {
  const any = { value: "", text: "Any" };
  return (
    <Form
      inline
      label="Filter the ledger"
      action="Filter"
      submit={async (values) => apply(filterOf(values))}
    >
      <SelectField
        label="Account"
        name="account"
        options={[any, ...["available", "pending"].map((value) => ({ value, text: value }))]}
      />
      <SelectField
        label="Direction"
        name="direction"
        options={[any, ...["credit", "debit"].map((value) => ({ value, text: value }))]}
      />
      <SelectField
        label="Reason"
        name="reason"
        options={[any, ...REASONS.map((value) => ({ value, text: value.replaceAll("_", " ") }))]}
      />
      <SelectField
        label="Asset"
        name="usdc"
        options={[any, { value: "true", text: "USDC" }, { value: "false", text: "Tokens" }]}
      />
      <TextField label="From" name="from" type="datetime-local" />
      <TextField label="To" name="to" type="datetime-local" />
      <TextField label="At least" name="min" inputMode="decimal" />
      <TextField label="At most" name="max" inputMode="decimal" />
      <TextField label="Reference" name="ref" defaultValue={reference} />
    </Form>
  );
}

function filterOf(values: FormValues): LedgerFilter {
  const [account, direction] = [values.text("account"), values.text("direction")];
  const reason = REASONS.find((known) => known === values.text("reason"));
  const [from, to] = [values.optional("from"), values.optional("to")];
  const [least, most] = [values.optional("min"), values.optional("max")];
  const reference = values.optional("ref");
  const usdc = values.text("usdc");
  return {
    ...(account === "available" || account === "pending" ? { account } : {}),
    ...(direction === "credit" || direction === "debit" ? { direction } : {}),
    ...(reason === undefined ? {} : { reasons: [reason] }),
    ...(usdc === "" ? {} : { usdc: usdc === "true" }),
    ...(from === undefined ? {} : { from: new Date(from) }),
    ...(to === undefined ? {} : { to: new Date(to) }),
    ...(least === undefined ? {} : { min_amount: amount(least) }),
    ...(most === undefined ? {} : { max_amount: amount(most) }),
    ...(reference === undefined ? {} : { ref_id: reference }),
  };
}

function amount(text: string): bigint {
  const units = parseUnits(text);
  if (units === null) throw new Error("Enter amounts such as 12.5.");
  return units;
}

async function download(client: ReturnType<typeof useClient>, filter: LedgerFilter): Promise<void> {
  const csv = await client.custody.statement(filter);
  const url = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = "ledger.csv";
  link.click();
  URL.revokeObjectURL(url);
}
