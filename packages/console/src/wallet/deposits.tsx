/** Where to send tokens, on which chain, and which ones. */
import { useState } from "react";
import { useConfig } from "../markets.ts";
import { useAct, useList, useRead } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { SelectField } from "../ui/choices.tsx";
import { QrCode } from "../ui/qr-code.tsx";
import { Loading } from "../ui/place.tsx";
import { Part } from "../ui/records.tsx";
import { Id } from "../ui/values.tsx";
import { formatTokens } from "../units.ts";

const RECENT = 100;
const REFRESH_MS = 2_000;

/** Newest first. */
export function useDeposits() {
  return useList(["deposits"], (client) => client.custody.deposits({ limit: RECENT }), {
    // Confirmations are no events, so a deposit on its way is read again.
    refetchEvery: (deposits) =>
      deposits.some(({ status }) => status === "confirming") ? REFRESH_MS : false,
  });
}

export function Deposits() {
  const act = useAct("deposit-addresses");
  const config = useConfig();
  const [chosen, setChosen] = useState("");
  const addresses = useRead(["deposit-addresses"], (client) => client.custody.depositAddresses());
  const chains = config?.chains ?? [];
  const options = Object.fromEntries(chains.map((one) => [one.chain, one.chain]));
  const on = chains.find(({ chain }) => chain === chosen) ?? chains.find((one) => one.default);
  if (on === undefined || addresses === undefined) return <Loading what="addresses" rows={6} />;
  const { chain } = on;
  const venues = config?.venues.filter((venue) => venue.chain === chain) ?? [];
  const names = venues.map(({ venue_id }) => venue_id).join(", ");
  const address = addresses.find((one) => one.current && one.chain === chain)?.address;
  return (
    <Part title="Deposit">
      {chains.length < 2 ? null : (
        <SelectField label="Chain" value={chain} onChange={setChosen} options={options} />
      )}
      {address === undefined ? (
        <>
          <p>You have no deposit address on {chain} yet. It will be yours alone.</p>
          <ActionButton
            kind="primary"
            label="Create a deposit address"
            run={() => act((client) => client.custody.createDepositAddress({ chain }))}
          />
        </>
      ) : (
        <>
          <QrCode text={address} />
          <p>
            Your address on <strong>{chain}</strong>, yours alone
            <br />
            <Id id={address} whole />
          </p>
          <ActionButton
            kind="primary"
            label="Copy"
            done="The address is copied."
            run={() => navigator.clipboard.writeText(address)}
          />
        </>
      )}
      <p className="hint">
        Send USDC{names === "" ? "" : ` or outcome tokens of ${names}`} on {chain}. Other tokens
        cannot be credited. The smallest deposit is {formatTokens(on.min_deposit)} USDC. It counts
        after {on.required_confirmations} confirmations.
      </p>
    </Part>
  );
}
