/** The routes of the proof of liabilities (docs/contract.md, section 4). */
import * as z from "zod";
import { assetKey, canonicalAssetId, USDC } from "../../assets/asset.ts";
import {
  prefersReceipt,
  receiptResponse,
  RECEIPT_TEXT,
  RECEIPT_TYPE,
  receiptRecord,
} from "../../audit/receipt.ts";
import { route } from "../../http/define-route.ts";
import { described, textField } from "../../http/fields.ts";
import { Remembered } from "../../http/remembered.ts";
import type { Api } from "../../http/route-definition.ts";
import { problem } from "../../platform/problem.ts";
import { expr, scalar } from "../../platform/sql.ts";
import { VENUE_ID } from "../../platform/venues.ts";
import { Liabilities, LiabilityProof } from "./liability-schemas.ts";
import { DAY_MS, dayText, recordKey } from "./proof-run.ts";
import { readProof } from "./read-proof.ts";
import type { LiabilitiesRecord } from "./take-cut.ts";

/** Handlers receive the key of the asset. */
const asset = described(
  textField(
    (text) => {
      const [venue = "", token = "", ...more] = text.split(":");
      const assetId = canonicalAssetId(token);
      if (text === USDC) return USDC;
      return VENUE_ID.test(venue) && assetId && more.length === 0
        ? assetKey({ venue, assetId })
        : undefined;
    },
    "must be usdc, or a venue and an asset id as venue_one:0x1",
    { type: "string", maxLength: 99, examples: ["usdc"] },
  ),
  "`usdc`, or an outcome token as `<venue_id>:<asset_id>`; omitted: `usdc`",
).optional();

/** Days since 1970. */
const day = described(
  textField(
    (text) => {
      const at = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
      return Number.isNaN(at) ? undefined : at / DAY_MS;
    },
    "must be a day, as 2026-11-28",
    { type: "string", format: "date" },
  ),
  "A UTC day; omitted: the newest record",
).optional();

export function registerLiabilityRoutes(app: Api): void {
  const newest = new Remembered<string>(60_000);
  route(app, {
    method: "get",
    path: "/.well-known/liabilities.json",
    operationId: "getLiabilities",
    tag: "Service",
    summary: "Get what the service owes its users, and the roots that prove it",
    description: `Made once a day. The newest one may be a minute late. ${RECEIPT_TEXT}`,
    credential: "public",
    query: z.strictObject({ day }),
    response: Liabilities,
    otherMediaTypes: [RECEIPT_TYPE],
    problems: ["liability_unknown"],
    handler: async ({ env, db, request, query }) => {
      const read = async (text: string) => {
        const object = await env.ARCHIVE.get(recordKey(text));
        if (object === null) throw problem("liability_unknown", "That day has no record.");
        return object.text();
      };
      const receipt =
        query.day === undefined
          ? await newest.get(env, async () => read(dayText((await newestDay(db)) ?? 0)))
          : await read(dayText(query.day));
      // Safe cast: only records of liabilities are stored there.
      return prefersReceipt(request)
        ? receiptResponse(receipt)
        : (receiptRecord(receipt) as LiabilitiesRecord);
    },
  });
  route(app, {
    method: "get",
    path: "/custody/get-liability-proof",
    operationId: "getLiabilityProof",
    tag: "Custody",
    summary: "Get the proof that your balance is in the record of a day",
    description: "The clients verify it together with the signed record.",
    credential: "any",
    scope: "read",
    query: z.strictObject({ asset, day }),
    response: LiabilityProof,
    problems: ["liability_unknown"],
    handler: ({ env, db, settings, actor: { userId }, query }) => {
      const of = { userId, asset: query.asset ?? USDC, day: query.day ?? null };
      return readProof(db, settings, env.ARCHIVE, of);
    },
  });
}

function newestDay(db: D1Database): Promise<number | null> {
  return scalar(db, expr`SELECT max(day) FROM liability_proofs WHERE published_at IS NOT NULL`);
}
