/** Asks for a withdrawal: where to, how much, and the key that signs it in this page. */
import type { Balance, WithdrawalAddress, WithdrawalTerms } from "@rfq-custody/client";
import { NoAnswer, Problem } from "@rfq-custody/client";
import { useEffect, useRef, useState } from "react";
import { useConfig } from "../markets.ts";
import { useAssetName } from "../names.ts";
import { useAct } from "../session/session.tsx";
import { clockNow } from "../ui/clock.ts";
import { fromNow } from "../ui/values.tsx";
import { Facts } from "../ui/records.tsx";
import { SelectField } from "../ui/choices.tsx";
import { FieldProblem, Form, type FormValues, TextField } from "../ui/form.tsx";
import { FieldError } from "../ui/problems.ts";
import { assetKey, exactUnits, formatTokens, formatUnits, parseUnits, toCent } from "../units.ts";
import { useBalances } from "./balances.ts";
import { AddressForm, useAddressBook, usePolicy } from "./safety.tsx";
import { Steps, useCircumstances } from "./timeline.tsx";
import { apiKeyOf, approvalNeeded, mayHaveArrived, type Step } from "./withdrawal-state.ts";

export function WithdrawForm() {
  const nameOf = useAssetName();
  const book = useAddressBook();
  const paused = useConfig()?.withdrawals_paused ?? false;
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
  if (paused)
    return (
      <section className="card warn" aria-label="Withdraw">
        <h2>Withdrawals are paused</h2>
        <p>The operator has stopped them for now. Nothing can be sent until they go on.</p>
      </section>
    );
  return (
    <section className="card withdraw" aria-label="Withdraw" ref={place}>
      <WhereTo chosen={entry?.address_id} choose={setTo} isLocked={unclear !== null} />
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
        <input type="hidden" name="to" />
        <FieldProblem name="to" />
        <fieldset className="bare" disabled={unclear !== null}>
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
            hint={`You can use ${formatTokens(toCent(asset?.balance ?? 0n)) || "0"} ${unit}${limits}.`}
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
        <TextField
          label="API key with the scope withdraw"
          name="key"
          type="password"
          autoComplete="off"
          required
          hint="Its id, a space and its secret. They sign this call in the page and are not kept."
        />
        <p className="hint">
          No such key yet? Ask for one under <a href="#account">Account</a>. The operator approves
          it.
        </p>
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
        throw error instanceof NoAnswer
          ? new Error(
              "No answer came, so it may have been asked for. Send it again: it is made once.",
            )
          : error;
      },
    );
    location.hash = `#wallet/withdraw/${asked.withdrawal_id}`;
  };
  return { unclear, send };
}

type WhereToProps = {
  chosen: string | undefined;
  choose: (id: string) => void;
  isLocked: boolean;
};

/** The address book to choose from, and to add to. */
function WhereTo({ chosen, choose, isLocked }: WhereToProps) {
  const book = useAddressBook();
  const { recent } = useCircumstances(undefined);
  const [adds, setAdds] = useState(false);
  return (
    <fieldset className="bare" disabled={isLocked}>
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
              name="chosen"
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
      {adds || book?.length === 0 ? (
        <AddressForm
          added={(address_id) => {
            setAdds(false);
            choose(address_id);
          }}
        />
      ) : (
        <button type="button" className="link" onClick={() => setAdds(true)}>
          Add an address
        </button>
      )}
    </fieldset>
  );
}

/** What leaves, what arrives, and what happens in between. */
function Check({ amount, unit, chain }: { amount: bigint; unit: string; chain: string }) {
  const what = `${formatUnits(amount)} ${unit}`;
  const circumstances = useCircumstances(chain);
  const need = approvalNeeded(amount, circumstances);
  const { confirmations } = circumstances;
  const steps: Step[] = [
    { title: "You send", note: "nothing is paid yet", state: "now" },
    { title: "In line", note: "the oldest is sent first", state: "later" },
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
      <Steps steps={steps} chain={chain} />
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

/** Empties secret fields when the document is left, because the browser may keep its pages. */
function useForgottenSecrets() {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const forget = () =>
      place.current?.querySelector<HTMLFormElement>("form[aria-label=Withdraw]")?.reset();
    addEventListener("pagehide", forget);
    return () => removeEventListener("pagehide", forget);
  }, []);
  return place;
}
