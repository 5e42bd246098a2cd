import type { NewApiKey, Scope, Venue } from "@rfq-custody/client";
import { useState } from "react";
import { useConfig } from "../markets.ts";
import { stepUp, StepUpFields } from "./step-up.tsx";
import { useAddressBook } from "../wallet/safety.tsx";
import { useAct, useList } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { CheckField, Form, type FormValues, TextField } from "../ui/form.tsx";
import { Part, Table } from "../ui/records.tsx";
import { fromNow, Id, When } from "../ui/values.tsx";
import { formatTime, formatUnits } from "../units.ts";

const LISTED = 100;

export function ApiKeys() {
  const act = useAct("api-keys");
  const keys = useList(["api-keys"], (client) => client.auth.apiKeys({ limit: LISTED }));
  return (
    <Part title="API keys">
      <NewKey />
      <Table
        caption="API keys, newest first"
        rows={keys}
        rowKey={({ api_key_id }) => api_key_id}
        empty="No keys yet."
        columns={[
          ["Label", ({ label }) => label],
          ["Id", ({ api_key_id }) => <Id id={api_key_id} />],
          [
            "Scopes",
            ({ scopes, only_listed: listed, active_from: from }) =>
              `${scopes.join(", ")}${listed ? " to listed addresses" : ""}${from === null ? " (waits for approval)" : ""}`,
          ],
          ["Works from", ({ active_from: from }) => (from === null ? "" : <When at={from} />)],
          [
            "Limits",
            ({ limits }) =>
              [
                limits?.venues?.join(", "),
                limits?.max_usdc_per_trade && `${formatUnits(limits.max_usdc_per_trade)} a trade`,
                limits?.max_usdc_per_day && `${formatUnits(limits.max_usdc_per_day)} a day`,
              ]
                .filter(Boolean)
                .join(", ") || "none",
          ],
          ["Ends", ({ expires_at: end }) => (end === null ? "never" : <When at={end} />)],
          ["From", ({ allowed_ips: ips }) => ips?.join(", ") ?? ""],
          ["Last used", ({ last_used_at: at }) => (at === null ? "never" : <When at={at} />)],
          [
            "Revoke",
            ({ api_key_id, label, revoked_at }) =>
              revoked_at === null ? (
                <ActionButton
                  kind="danger"
                  label="Revoke"
                  name={`Revoke the key ${label}`}
                  ask={`Programs that use ${label} stop. Revoke it?`}
                  done={`The key ${label} is revoked.`}
                  run={() => act((client) => client.auth.revokeApiKey({ api_key_id }))}
                />
              ) : (
                <span title={formatTime(revoked_at)}>revoked {fromNow(revoked_at)}</span>
              ),
            "actions",
          ],
        ]}
      />
    </Part>
  );
}

/** A key that outlives this takes a step-up, also one that only reads. */
const USUAL_DAYS = 90;

function NewKey() {
  const act = useAct("api-keys");
  const [created, setCreated] = useState<NewApiKey | null>(null);
  return (
    <details>
      <summary>New key</summary>
      {created === null ? null : (
        <div className="card receipt" role="status">
          <p>
            Copy the secret now. It is shown once.
            <br />
            Key id: <code>{created.api_key_id}</code>
            <br />
            Secret: <code>{created.secret}</code>
          </p>
          <p className="row">
            <ActionButton
              label="Copy both"
              done="The key's id and secret are copied."
              run={() => navigator.clipboard.writeText(`${created.api_key_id} ${created.secret}`)}
            />
            <button type="button" className="primary" onClick={() => setCreated(null)}>
              I have copied it
            </button>
          </p>
        </div>
      )}
      <Form
        // Empty again once a key is made, the password too.
        key={created?.api_key_id}
        label="New key"
        action="Create the key"
        names={{ addresses: "address", allowed_ips: "ips", expires_at: "days", scopes: "scope" }}
        submit={async (values) =>
          setCreated(await act((client) => client.auth.createApiKey(terms(values))))
        }
      >
        <KeyFields />
      </Form>
    </details>
  );
}

/** What is asked for depends on what the key may do. */
function KeyFields() {
  const config = useConfig();
  const [trades, setTrades] = useState(false);
  const [withdraws, setWithdraws] = useState(false);
  const [lasts, setLasts] = useState(false);
  return (
    <>
      <div className="row">
        <TextField label="Label" name="label" required />
        <TextField label="At most USDC a trade" name="trade" inputMode="decimal" />
        <TextField label="At most USDC a day" name="day" inputMode="decimal" />
        <TextField
          label="Allowed addresses"
          name="ips"
          hint="IP addresses or ranges, by commas"
          required={withdraws}
        />
        <TextField
          label="Expires after days"
          name="days"
          inputMode="numeric"
          hint={`${USUAL_DAYS} by default`}
          required={withdraws}
          onChange={(event) => setLasts(Number(event.currentTarget.value) > USUAL_DAYS)}
        />
      </div>
      <fieldset>
        <legend>It may</legend>
        <CheckField label="read" name="scope" value="read" checked />
        <CheckField label="trade" name="scope" value="trade" onChange={setTrades} />
        <CheckField
          label="withdraw, once the operator has approved the key"
          name="scope"
          value="withdraw"
          onChange={setWithdraws}
        />
        {withdraws ? <ListedFields /> : null}
      </fieldset>
      <fieldset>
        <legend>Only on these venues (none: all)</legend>
        {config?.venues.map(({ venue_id }) => (
          <CheckField key={venue_id} label={venue_id} name="venue" value={venue_id} />
        ))}
      </fieldset>
      <CheckField label="Each request and quote needs an idempotency key" name="idempotency" />
      {trades || withdraws || lasts ? <StepUpFields /> : null}
    </>
  );
}

/** A key that pays only the address book approves itself after the delay if TOTP is on. */
function ListedFields() {
  const [listed, setListed] = useState(false);
  const book = useAddressBook();
  return (
    <>
      <CheckField
        label="only to my address book, and with TOTP on without the operator"
        name="listed"
        onChange={setListed}
      />
      {(listed ? (book ?? []) : []).map(({ address_id, address, label, chain }) => (
        <CheckField
          key={address_id}
          label={`of it only ${label} (${chain})`}
          name="address"
          value={address}
        />
      ))}
    </>
  );
}

function terms(values: FormValues) {
  // Safe cast: the values of the checkboxes.
  const scopes = values.getAll("scope") as Scope[];
  const venues = values.getAll("venue") as Venue[];
  // Safe cast: the values of the checkboxes.
  const addresses = [...new Set(values.getAll("address") as string[])];
  const ips = values.text("ips").match(/[^\s,]+/g) ?? [];
  return {
    label: values.text("label"),
    scopes,
    request_approval: scopes.includes("withdraw"),
    ...(values.has("listed")
      ? { only_listed: true, addresses: addresses.length === 0 ? null : addresses }
      : {}),
    limits: {
      venues: venues.length === 0 ? null : venues,
      max_usdc_per_trade: values.unitsOrNull("trade"),
      max_usdc_per_day: values.unitsOrNull("day"),
    },
    require_idempotency: values.has("idempotency"),
    ...(values.has("password") ? stepUp(values) : {}),
    ...(ips.length === 0 ? {} : { allowed_ips: ips }),
    ...(values.optional("days") === undefined
      ? {}
      : {
          expires_at: new Date(
            Date.now() + values.integer("days", 3_650) * 86_400_000,
          ).toISOString(),
        }),
  };
}
