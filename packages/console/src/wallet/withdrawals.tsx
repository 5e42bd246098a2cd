/** Withdrawals with their states. Asking for one takes an API key with the scope withdraw. */
import type { MarketAsset, Withdrawal } from "@rfq-custody/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { AssetPicker } from "./asset-picker.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Form, TextField } from "../ui/form.tsx";
import { PageButtons, usePages } from "../ui/pages.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";
import { formatUnits, shortId } from "../units.ts";
import { StepUpFields, stepUp } from "../account/step-up.tsx";
import { useAddressBook } from "./address-book.tsx";

const ROWS = 20;

export function Withdrawals() {
  const client = useClient();
  const queries = useQueryClient();
  const nameOf = useAssetName();
  const pages = usePages([]);
  const [approving, setApproving] = useState<Withdrawal | null>(null);
  const { data: page } = useQuery({
    queryKey: ["withdrawals", pages.cursor],
    queryFn: () => client.custody.withdrawals({ limit: ROWS, ...pages.position }).page(),
  });
  const changed = () => queries.invalidateQueries();
  return (
    <section className="card" aria-label="Withdrawals">
      <h2>Withdrawals</h2>
      <WithdrawalForm changed={changed} />
      {approving === null ? null : (
        <Form
          inline
          label="Approve the withdrawal"
          action={`Approve ${formatUnits(approving.amount)} ${nameOf(approving)}`}
          submit={async (values) => {
            const { withdrawal_id } = approving;
            await client.custody.approveWithdrawal({ withdrawal_id, ...stepUp(values) });
            setApproving(null);
            await changed();
          }}
        >
          <Destination withdrawal={approving} />
          <StepUpFields />
        </Form>
      )}
      <Table
        caption="Withdrawals, newest first"
        rows={page?.items}
        rowKey={({ withdrawal_id }) => withdrawal_id}
        empty="No withdrawals yet."
        columns={[
          { title: "Time", cell: ({ created_at }) => <When at={created_at} /> },
          { title: "Asset", cell: (withdrawal) => nameOf(withdrawal) },
          { title: "Amount", cell: ({ amount }) => formatUnits(amount), number: true },
          { title: "To", cell: ({ to_address: to }) => <code title={to}>{shortId(to)}</code> },
          {
            title: "Status",
            cell: ({ status, failure }) =>
              status.replaceAll("_", " ") + (failure === null ? "" : `: ${failure.message}`),
          },
          {
            title: "Transaction",
            cell: ({ transaction_hash: hash }) =>
              hash === null ? "–" : <code title={hash}>{shortId(hash)}</code>,
          },
          {
            title: "Act",
            cell: (withdrawal) => {
              const { status, withdrawal_id } = withdrawal;
              const waits = status === "awaiting_approval";
              if (!waits && status !== "queued") return null;
              return (
                <>
                  {waits ? (
                    <button type="button" onClick={() => setApproving(withdrawal)}>
                      Approve
                    </button>
                  ) : null}
                  <ActionButton
                    label="Cancel"
                    name={`Cancel the withdrawal of ${formatUnits(withdrawal.amount)}`}
                    run={async () => {
                      await client.custody.cancelWithdrawal({ withdrawal_id });
                      await changed();
                    }}
                  />
                </>
              );
            },
          },
        ]}
      />
      <PageButtons pages={pages} next={page?.next_cursor} />
    </section>
  );
}

/** The whole address, because a thief can find one with the same ends, and its name in the book. */
function Destination({ withdrawal: { chain, to_address } }: { withdrawal: Withdrawal }) {
  const book = useAddressBook();
  const entry = book?.find((one) => one.chain === chain && one.address === to_address);
  const label = entry === undefined ? "not in your address book" : `“${entry.label}”`;
  return (
    <p>
      To <code>{to_address}</code> on {chain}
      {book === undefined ? null : <>: {label}</>}
    </p>
  );
}

function WithdrawalForm({ changed }: { changed: () => Promise<void> }) {
  const client = useClient();
  const [asset, setAsset] = useState<MarketAsset | null>(null);
  const [token, setToken] = useState(false);
  // Kept until a withdrawal exists, so that a repeated click cannot make two.
  const id = useRef(crypto.randomUUID());
  return (
    <details>
      <summary>Withdraw</summary>
      <Form
        label="Withdraw"
        action="Withdraw"
        done="The withdrawal is on its way. Its state is below."
        submit={async (values) => {
          if (token && asset === null) throw new Error("Choose a market first.");
          const key = { apiKeyId: values.text("key"), secret: values.text("secret") };
          await client.withApiKey(key).custody.withdraw({
            client_withdrawal_id: id.current,
            amount: values.units("amount"),
            to_address: values.text("to").trim(),
            ...(token && asset !== null ? asset : {}),
          });
          id.current = crypto.randomUUID();
          await changed();
        }}
      >
        <p className="hint">
          A session cannot withdraw. Enter an API key with the scope withdraw. It is used for this
          call and not kept.
        </p>
        <div className="row">
          <TextField label="API key id" name="key" autoComplete="off" required />
          <TextField label="Its secret" name="secret" type="password" autoComplete="off" required />
          <TextField label="Amount" name="amount" inputMode="decimal" required />
          <TextField label="To address" name="to" placeholder="0x…" required />
        </div>
        <p className="field check">
          <label>
            <input
              type="checkbox"
              checked={token}
              onChange={({ target }) => setToken(target.checked)}
            />{" "}
            An outcome token instead of USDC
          </label>
        </p>
        {token ? <AssetPicker asset={asset} choose={setAsset} /> : null}
      </Form>
    </details>
  );
}
