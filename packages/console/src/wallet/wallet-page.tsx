import type { ComponentType } from "react";
import { useRoute } from "../router.ts";
import { Place } from "../ui/place.tsx";
import { Facts } from "../ui/records.tsx";
import { usdcOf } from "../ui/values.tsx";
import { useBalance } from "./balances.ts";
import { Balances } from "./balances-table.tsx";
import { Deposits, useDeposits } from "./deposits.tsx";
import { Ledger } from "./ledger.tsx";
import { Moves } from "./moves.tsx";
import { Safety } from "./safety.tsx";
import { Timeline } from "./timeline.tsx";
import { WithdrawForm } from "./withdraw-form.tsx";

type PartProps = { id: string | undefined; reference: string | undefined };
const PARTS: Readonly<Record<string, readonly [string, ComponentType<PartProps>]>> = {
  "": ["Balances", Overview],
  withdraw: ["Withdraw", Withdraw],
  safety: ["Addresses and limits", Safety],
  ledger: ["Ledger", Ledger],
};

/**
 * `#wallet/withdraw/<id>` shows how far a withdrawal is. `#wallet/<id>` shows the ledger entries of
 * a match, quote, deposit or withdrawal.
 */
export default function WalletPage() {
  const [, name = "", id] = useRoute();
  const isPart = Object.hasOwn(PARTS, name);
  const [title, Part] = PARTS[name] ?? ["Ledger", Ledger];
  return (
    <>
      <nav className="seg" aria-label="Wallet">
        {Object.entries(PARTS).map(([part, [text]]) => (
          <a key={part} href={`#wallet/${part}`} aria-current={text === title ? "page" : undefined}>
            {text}
          </a>
        ))}
      </nav>
      <Place key={name} of="this part">
        <Part id={id} reference={isPart ? undefined : name} />
      </Place>
    </>
  );
}

function Withdraw({ id }: Pick<PartProps, "id">) {
  return (
    <div className={`split withdrawing ${id === undefined ? "" : "aside-first"}`}>
      {/* Another withdrawal starts empty, without the key of the last one. */}
      <Place of="what you can withdraw">
        <WithdrawForm key={id} />
      </Place>
      <aside>
        <Place of="the withdrawal">
          <Timeline id={id} />
        </Place>
      </aside>
    </div>
  );
}

function Overview() {
  const usdc = useBalance();
  const promised = usdc?.pending_balance ?? 0n;
  const coming = (useDeposits() ?? [])
    .filter(({ status, venue_id }) => status === "confirming" && venue_id === null)
    .reduce((sum, { amount }) => sum + amount, 0n);
  return (
    <div className="split three">
      <div>
        <p className="big-price">
          <span className="muted">You can use</span>
          <br />
          <b>{usdcOf(usdc?.balance) || "0.00"}</b> <span className="muted">USDC</span>
        </p>
        <Facts
          inline
          facts={{
            "Promised to quotes and withdrawals, USDC": usdcOf(promised),
            "On its way in, USDC": usdcOf(coming),
          }}
        />
        <p>
          <a className="button" href="#wallet/withdraw">
            Withdraw…
          </a>
        </p>
        <Place of="what moves">
          <Moves moving />
        </Place>
      </div>
      <aside>
        <Place of="your deposit address">
          <Deposits />
        </Place>
      </aside>
      <div>
        <Place of="your balances">
          <Balances />
        </Place>
        <Place of="your deposits and withdrawals">
          <Moves moving={false} />
        </Place>
      </div>
    </div>
  );
}
