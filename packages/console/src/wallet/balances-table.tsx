import { Problem, verifyLiability } from "@rfq-custody/client";
import { useRead } from "../session/session.tsx";
import { AssetName, tokensOf } from "../ui/values.tsx";
import { Place } from "../ui/place.tsx";
import { Part, Table } from "../ui/records.tsx";
import { assetKey } from "../units.ts";
import { useBalances } from "./balances.ts";

export function Balances() {
  return (
    <Part title="Balances">
      <Table
        caption="What you can use, and what quotes and withdrawals have promised"
        rows={useBalances()}
        rowKey={assetKey}
        empty="You hold nothing yet. Deposit USDC to trade."
        columns={[
          ["What", (balance) => <AssetName asset={balance} />],
          ["You can use", ({ balance }) => tokensOf(balance), "number"],
          ["Promised", ({ pending_balance: promised }) => tokensOf(promised), "number"],
        ]}
      />
      <Place of="the proof of your balance">
        <Included />
      </Place>
    </Part>
  );
}

/** Says that the USDC is in the newest proof of liabilities, once this page has verified it. */
function Included() {
  const proven = useRead(["liability"], async (client) => {
    try {
      const [proof, keys] = [await client.custody.liabilityProof(), await client.signingKeys()];
      const receipt = await client.liabilitiesReceipt({ day: proof.day });
      const { record } = await verifyLiability(proof, receipt, keys);
      return { at: record.at, day: proof.day, parts: { proof, receipt, keys } };
    } catch (error) {
      if (error instanceof Problem && error.code === "liability_unknown") return null;
      throw error;
    }
  });
  if (!proven) return null;
  const text = JSON.stringify(proven.parts, (_, value: unknown) =>
    typeof value === "bigint" ? `0x${value.toString(16)}` : value,
  );
  return (
    <p className="muted">
      USDC included in the proof of {UTC.format(new Date(proven.at))} UTC.{" "}
      <a
        download={`proof-${proven.day}.json`}
        href={`data:application/json,${encodeURIComponent(text)}`}
      >
        Download
      </a>
    </p>
  );
}

const UTC = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  timeZone: "UTC",
});
