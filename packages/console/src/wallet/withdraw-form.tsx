/** Asks for a withdrawal: where to, how much, and the key that signs it in this page. */
import type { Balance, WithdrawalAddress, WithdrawalTerms } from "@rfq-custody/client";
import { NoAnswer, Problem } from "@rfq-custody/client";
import { useEffect, useRef, useState } from "react";
import { useAssetName, useConfig } from "../markets.ts";
import { useAct } from "../session/session.tsx";
import { clockNow } from "../ui/clock.ts";
import { fromNow } from "../ui/values.tsx";
import { Facts } from "../ui/records.tsx";
import {
  explain,
  FieldError,
  FieldProblem,
  Form,
  type FormValues,
  SelectField,
  TextField,
} from "../ui/form.tsx";
import { assetKey, exactUnits, formatTokens, formatUnits, parseUnits } from "../units.ts";
import { useBalances } from "./balances.tsx";
import { useAddressBook, usePolicy } from "./safety.tsx";
import { Steps, useCircumstances } from "./timeline.tsx";
import {
  apiKeyOf,
  approvalNeeded,
  fieldOf,
  mayHaveArrived,
  type Step,
} from "./withdrawal-state.ts";

export function WithdrawForm() {
  const nameOf = useAssetName();
  const book = useAddressBook();
  const [to, setTo] = useState("");
  const [chosen, setChosen] = useState("");
  const [text, setText] = useState("");
  const place = useForgottenSecrets();
  const usable = book?.filter(({ active_from }) => Date.parse(active_from) <= clockNow()) ?? [];
  const entry = usable.find(({ address_id }) => address_id === to || usable.length === 1);
  const assets = useAssets(entry?.chain);
  const asset = assets.find((one) => assetKey(one) === chosen) ?? assets[0];
  const unit = asset === undefined ? "USDC" : nameOf(asset);
  const { most, limits } = useMost(asset);
  const amount = parseUnits(text);
  const { unclear, send } = useSending({ entry, asset, most, unit });
  return (
    <section className="card" aria-label="Withdraw" ref={place}>
      <Form
        label="Withdraw"
        action={
          unclear !== null
            ? `Send ${formatUnits(unclear.amount)} ${unit} again`
            : amount === null || entry === undefined
              ? "Send"
              : `Send ${formatUnits(amount)} ${unit} to ${entry.label}`
        }
        submit={send}
      >
        <fieldset className="bare" disabled={unclear !== null}>
          <WhereTo chosen={entry?.address_id} choose={setTo} />
          <h2>2 How much</h2>
          {assets.length < 2 ? null : (
            <SelectField
              label="What"
              value={asset === undefined ? "" : assetKey(asset)}
              onChange={setChosen}
              options={Object.fromEntries(assets.map((one) => [assetKey(one), nameOf(one)]))}
            />
          )}
          <TextField
            label="Amount"
            name="amount"
            inputMode="decimal"
            autoComplete="off"
            required
            hint={`You can use ${formatTokens(asset?.balance ?? 0n)} ${unit}${limits}.`}
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
          <p className="chips">
            <button type="button" className="chip" onClick={() => setText(exactUnits(most))}>
              Max
            </button>
          </p>
        </fieldset>
        <h2>3 Check and send</h2>
        {amount === null || entry === undefined ? null : (
          <Check amount={amount} unit={unit} chain={entry.chain} />
        )}
        <KeyField />
      </Form>
    </section>
  );
}

type Chosen = { entry: WithdrawalAddress | undefined; asset: Balance | undefined };

/** Sends what the form says, or once more what was asked for without a clear answer. */
function useSending({ entry, asset, most, unit }: Chosen & { most: bigint; unit: string }) {
  const act = useAct("withdrawals", "balances", "policy");
  // One form makes at most one withdrawal, because a second one with its id is rejected.
  const [id] = useState(() => crypto.randomUUID());
  const [unclear, setUnclear] = useState<WithdrawalTerms | null>(null);
  const send = async (values: FormValues) => {
    const terms = unclear ?? termsOf(id, { entry, asset }, values.units("amount"));
    if (unclear === null && asset !== undefined && terms.amount > most)
      throw new FieldError("amount", `You can withdraw at most ${formatTokens(most)} ${unit} now.`);
    const key = apiKeyOf(values.text("key"));
    if (key === null) throw new FieldError("key", "Enter the id of the key, a space, its secret.");
    const asked = await act((client) => client.withApiKey(key).custody.withdraw(terms)).catch(
      (error: unknown) => {
        if (mayHaveArrived(error)) setUnclear(terms);
        // The id is looked up before anything else that is 409, so it was not made.
        else if (error instanceof Problem && error.status === 409) setUnclear(null);
        throw placed(error);
      },
    );
    location.hash = `#wallet/withdraw/${asked.withdrawal_id}`;
  };
  return { unclear, send };
}

function KeyField() {
  return (
    <>
      <TextField
        label="API key with the scope withdraw"
        name="key"
        type="password"
        autoComplete="off"
        required
        hint="Its id, a space and its secret. They sign this call in the page and are not kept."
      />
      <p className="hint">
        No such key yet? Ask for one under <a href="#account">Account</a>.
      </p>
    </>
  );
}

function WhereTo({ chosen, choose }: { chosen: string | undefined; choose: (id: string) => void }) {
  const book = useAddressBook();
  const { recent } = useCircumstances(undefined);
  return (
    <fieldset className="bare">
      <legend>
        <h2>1 Where to</h2>
      </legend>
      {book?.map(({ address_id, label, address, chain, active_from }) => {
        const rests = Date.parse(active_from) > clockNow();
        const used = recent.some((one) => one.to_address === address && one.status === "settled");
        return (
          <label key={address_id} className="pick">
            <input
              type="radio"
              name="to"
              value={address_id}
              checked={chosen === address_id}
              disabled={rests}
              onChange={() => choose(address_id)}
            />
            <b>{label}</b>{" "}
            {rests ? <span className="warn">usable {fromNow(active_from)}</span> : null}
            {used ? <span className="up">used before</span> : null}
            <small className="sub">
              <code>{address}</code> on {chain}
            </small>
          </label>
        );
      })}
      {book?.length === 0 ? (
        <p>Your address book is empty. Withdrawals go to its addresses.</p>
      ) : null}
      <FieldProblem name="to" />
      <p>
        <a href="#wallet/safety">Add an address</a>
      </p>
    </fieldset>
  );
}

/** What leaves, what arrives, and what happens in between. */
function Check({ amount, unit, chain }: { amount: bigint; unit: string; chain: string }) {
  const what = `${formatUnits(amount)} ${unit}`;
  const circumstances = useCircumstances(chain);
  const need = approvalNeeded(amount, circumstances);
  const { paused, confirmations } = circumstances;
  const steps: Step[] = [
    { title: "You send", note: "nothing is paid yet", state: "now" },
    { title: "In line", note: paused ? "withdrawals are paused" : "", state: "later" },
    { title: "Arrives", note: `after ${confirmations ?? "some"} confirmations`, state: "later" },
  ];
  if (need !== null)
    steps.splice(1, 0, {
      title: "You approve",
      note: `your approval needed, above your ${formatTokens(need.limit)} a day`,
      state: "later",
    });
  return (
    <>
      <Facts
        facts={{ "They receive": `${what} on ${chain}`, "Network fee": "we pay it" }}
        total={["Leaves your balance", what]}
      />
      <Steps steps={steps} />
    </>
  );
}

/** What the user has and this chain can pay. USDC is one balance across chains. */
function useAssets(chain: string | undefined): readonly Balance[] {
  const config = useConfig();
  const chainOf = new Map(config?.venues.map((venue) => [venue.venue_id, venue.chain]));
  return (useBalances() ?? []).filter(
    ({ venue_id, balance }) =>
      venue_id === null ||
      (balance > 0n && (chain === undefined || chainOf.get(venue_id) === chain)),
  );
}

/** The largest amount now, and the limit of the policy. */
function useMost(asset: Balance | undefined) {
  const { policy, used } = usePolicy() ?? {};
  const daily = policy?.withdraw_max_usdc_per_day ?? null;
  const most = asset?.balance ?? 0n;
  if (daily === null) return { most, limits: "" };
  const rest = daily - (used?.withdraw_usdc ?? 0n);
  const left = rest < 0n ? 0n : rest;
  const limits = `, and your policy leaves ${formatTokens(left)} today`;
  return { most: left < most ? left : most, limits };
}

function termsOf(client_withdrawal_id: string, { entry, asset }: Chosen, amount: bigint) {
  if (entry === undefined) throw new FieldError("to", "Choose an address.");
  const { venue_id, asset_id } = asset ?? { venue_id: null, asset_id: null };
  const what = venue_id === null || asset_id === null ? {} : { venue_id, asset_id };
  return { client_withdrawal_id, amount, to_address: entry.address, chain: entry.chain, ...what };
}

/** The error with the field that caused it. */
function placed(error: unknown): unknown {
  if (error instanceof NoAnswer)
    return new Error(
      "No answer came, so it may have been asked for. Send it again: it is made once.",
    );
  const field = fieldOf(error);
  return field === undefined ? error : new FieldError(field, explain(error));
}

/** Empties secret fields when the document is left, because the browser may keep its pages. */
function useForgottenSecrets() {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const forget = () => place.current?.querySelector("form")?.reset();
    addEventListener("pagehide", forget);
    return () => removeEventListener("pagehide", forget);
  }, []);
  return place;
}
