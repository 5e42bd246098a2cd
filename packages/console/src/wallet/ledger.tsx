/** The ledger with its filters, the chart of the USDC balance, and the entries as a file. */
import type { LedgerEntry, LedgerFilter, LedgerReason } from "@rfq-custody/client";
import { useMemo, useState } from "react";
import { learn, nameOf, textOf, useAssetName } from "../names.ts";
import { useRead } from "../session/session.tsx";
import { Chart } from "../ui/chart.tsx";
import { CsvButton } from "../ui/csv-button.tsx";
import { SelectField } from "../ui/choices.tsx";
import { Form, type FormValues, TextField } from "../ui/form.tsx";
import { PagedTable, Part } from "../ui/records.tsx";
import { Id, When } from "../ui/values.tsx";
import { endOfMinute, exactUnits, formatUnits } from "../units.ts";

const ROWS = 50;
const REASONS: Record<LedgerReason, string> = {
  deposit: "deposit",
  withdrawal: "withdrawal",
  reserve_rfq: "reserved as maker",
  reserve_trade: "reserved as requester",
  release: "released",
  trade: "trade",
  fee: "fee",
};

// Safe cast: the keys of the record above.
const REASON_NAMES = Object.keys(REASONS) as LedgerReason[];

export function Ledger({ reference }: { reference: string | undefined }) {
  const shownName = useAssetName();
  const [filter, setFilter] = useState<LedgerFilter>(
    reference === undefined ? {} : { ref_id: reference },
  );
  const key = Object.entries(filter).join();
  return (
    <Part title="Ledger">
      <BalanceChart />
      <LedgerForm apply={setFilter} reference={reference} />
      <CsvButton
        file="ledger.csv"
        before={(rows: readonly LedgerEntry[]) => learn(rows.map(assetOf))}
        read={(client, page, options) => client.custody.ledger({ ...filter, ...page }, options)}
        columns={{
          entry_id: ({ entry_id }) => entry_id,
          time: ({ created_at }) => created_at,
          asset: (entry) => textOf(nameOf(assetOf(entry))),
          venue_id: ({ venue }) => venue,
          asset_id: ({ asset_id }) => asset_id,
          account: ({ account }) => account,
          reason: ({ reason }) => reason,
          change: ({ delta }) => exactUnits(delta),
          balance_after: ({ balance_after }) => exactUnits(balance_after),
          reference: ({ ref_id }) => ref_id,
        }}
      />
      <PagedTable
        caption="Ledger entries, newest first"
        key={key}
        queryKey={["ledger", key]}
        read={(client, position) => client.custody.ledger({ limit: ROWS, ...filter, ...position })}
        rowKey={({ entry_id }) => String(entry_id)}
        empty="No entries match."
        columns={[
          ["Asset", (entry) => shownName(assetOf(entry))],
          ["When", ({ created_at }) => <When at={created_at} />],
          ["Account", ({ account }) => account],
          ["Reason", ({ reason }) => REASONS[reason]],
          ["Change", ({ delta }) => formatUnits(delta), "number"],
          ["Balance after", ({ balance_after }) => formatUnits(balance_after), "number"],
          ["Reference", ({ ref_id }) => <Id id={ref_id} />],
        ]}
      />
    </Part>
  );
}

const assetOf = ({ venue, asset_id }: LedgerEntry) => ({ venue_id: venue, asset_id });

type LedgerFormProps = { apply: (filter: LedgerFilter) => void; reference: string | undefined };

function LedgerForm({ apply, reference }: LedgerFormProps) {
  const select = (label: string, name: string, options: Record<string, string>) => (
    <SelectField label={label} name={name} options={{ "": "Any", ...options }} />
  );
  return (
    <Form
      inline
      label="Filter the ledger"
      action="Filter"
      submit={async (values) => apply(filterOf(values))}
    >
      {select("Account", "account", { available: "available", pending: "pending" })}
      {select("Direction", "direction", { credit: "in", debit: "out" })}
      {select("Reason", "reason", REASONS)}
      {select("Asset", "usdc", { true: "USDC", false: "Tokens" })}
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
  const reason = REASON_NAMES.find((known) => known === values.text("reason"));
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
    ...(to === undefined ? {} : { to: endOfMinute(to) }),
    ...(least === undefined ? {} : { min_amount: values.units("min") }),
    ...(most === undefined ? {} : { max_amount: values.units("max") }),
    ...(reference === undefined ? {} : { ref_id: reference }),
  };
}

/** The newest changes of the available USDC. */
const POINTS = 500;
const pointOf = ({ created_at: at, balance_after }: LedgerEntry) => ({
  at,
  value: Number(balance_after) / 1e6,
});

function BalanceChart() {
  const entries = useRead(["ledger", "chart"], async (client) => {
    const filter = { account: "available", usdc: true, limit: POINTS } as const;
    return (await client.custody.ledger(filter).page()).items.toReversed();
  });
  const last = entries?.at(-1);
  const lines = useMemo(() => [{ name: "", points: (entries ?? []).map(pointOf) }], [entries]);
  return (
    <figure>
      <figcaption>
        Available USDC{last === undefined ? "" : `, now ${formatUnits(last.balance_after)}`}
      </figcaption>
      <Chart lines={lines} unit="USDC" height={180} />
    </figure>
  );
}
