import { AddressBook } from "./address-book.tsx";
import { Balances } from "./balances.tsx";
import { Deposits } from "./deposits.tsx";
import { Ledger } from "./ledger.tsx";
import { Policy } from "./policy.tsx";
import { Withdrawals } from "./withdrawals.tsx";

export function WalletPage() {
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
      <Ledger />
    </>
  );
}
