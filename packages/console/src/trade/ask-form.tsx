/** Asks makers for a price, in tokens or in USDC, one-way or two-way. */
import type { MarketAsset } from "@rfq-custody/client";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useClient } from "../session/session.tsx";
import { CheckField, Form, SelectField, TextField } from "../ui/form.tsx";
import { AssetPicker } from "./asset-picker.tsx";

const SIDES = [
  { value: "Bid", text: "Buy" },
  { value: "Ask", text: "Sell" },
  { value: "TwoWay", text: "Both prices, decide later" },
] as const;

export function AskForm() {
  const client = useClient();
  const queries = useQueryClient();
  const [asset, setAsset] = useState<MarketAsset | null>(null);
  return (
    <section className="card" aria-label="Ask for a price">
      <h2>Ask for a price</h2>
      <Form
        label="Ask for a price"
        action="Ask makers"
        done="Your request is open. Quotes appear beside it."
        submit={async (values) => {
          if (asset === null) throw new Error("Choose a market first.");
          const size = values.units("size");
          await client.rfq.request({
            ...asset,
            ...(values.text("unit") === "usdc" ? { usdc_amount: size } : { amount: size }),
            side: SIDES.find(({ value }) => value === values.text("side"))?.value ?? "Bid",
            expires_in_secs: values.integer("minutes") * 60,
            disclose_identity: values.checked("disclose"),
          });
          await queries.invalidateQueries({ queryKey: ["my-requests"] });
        }}
      >
        <AssetPicker asset={asset} choose={setAsset} />
        <div className="row">
          <SelectField label="I want to" name="side" options={SIDES} />
          <TextField label="Size" name="size" inputMode="decimal" placeholder="100" required />
          <SelectField
            label="Size in"
            name="unit"
            options={[
              { value: "tokens", text: "tokens" },
              { value: "usdc", text: "USDC" },
            ]}
          />
          <TextField
            label="Open for minutes"
            name="minutes"
            inputMode="numeric"
            defaultValue="5"
            required
          />
        </div>
        <CheckField label="Show makers my user id" name="disclose" />
      </Form>
    </section>
  );
}
