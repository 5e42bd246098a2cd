import { AddressBook } from "./address-book.tsx";
import { Balances } from "./balances.tsx";
import { Deposits } from "./deposits.tsx";
import { Ledger } from "./ledger.tsx";
import { Policy } from "./policy.tsx";
import { Withdrawals } from "./withdrawals.tsx";
import { useRoute } from "../router.ts";

/** `#wallet/<id>` shows the ledger entries of a match, quote, deposit or withdrawal. */
export function WalletPage() {
  const [, reference] = useRoute();
  return (
    <>
      <div className="columns">
        <Balances />
        <Deposits />
      </div>
      <Withdrawals />
      <div className="columns">
        <AddressBook />
        <Policy />
      </div>
      <Ledger key={reference} reference={reference} />
    </>
  );
}
