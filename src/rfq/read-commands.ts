/** The commands that routes and sockets make of their validated fields. */
import type * as z from "zod";
import { assetKey } from "../assets/asset.ts";
import { requiresIdempotency } from "../http/define-route.ts";
import { invalidRequest } from "../platform/problem.ts";
import { type Config, venueConfig } from "../platform/config.ts";
import { publicId } from "../platform/uuid.ts";
import type { Accept, OpenRequest, PlaceQuote, Sent } from "./command.ts";
import { lessFee } from "./trade-terms.ts";
import type { AcceptBody, QuoteBody, quotesBody, RequestBody } from "./schemas.ts";
import { type QuoteKeyTerms, type RequestKeyTerms, termsText } from "./terms-text.ts";

export function openRequestOf(
  body: z.output<typeof RequestBody>,
  sent: Sent,
  idempotencyKey: string | undefined,
  settings: Config,
): OpenRequest {
  const { accept_price: price, side, usdc_amount: usdc } = body;
  const acceptSide = body.accept_side ?? (side === "TwoWay" ? undefined : side);
  const terms: RequestKeyTerms = {
    asset: assetKey({ venue: body.venue_id, assetId: body.asset_id }),
    amount: body.amount?.toString() ?? null,
    usdcAmount: body.usdc_amount?.toString() ?? null,
    side: body.side,
    disclosed: body.disclose_identity,
    expiresInSecs: body.expires_in_secs,
    label: body.label ?? null,
    accept:
      price === undefined || acceptSide === undefined ? undefined : { price, side: acceptSide },
    feesIncluded: body.fees_included === true ? true : undefined,
  };
  // After the terms: the fee may change before the command is repeated.
  const takesFee = usdc !== undefined && terms.feesIncluded === true && side !== "Ask";
  const bps = BigInt(venueConfig(settings, body.venue_id).taker_fee_bps);
  return {
    op: "open_request",
    ...sent,
    notAfter: body.not_after,
    requestId: publicId(),
    ...terms,
    ...(takesFee ? { usdcAmount: lessFee(usdc, bps).toString() } : {}),
    ...keyed(idempotencyKey, terms),
  };
}

function keyed(key: string | undefined, terms: RequestKeyTerms | QuoteKeyTerms) {
  return key === undefined ? {} : { idempotency: { key, terms: termsText(terms) } };
}

/** `where` is the place of the fields, for errors. */
export function placeQuotesOf(
  body: z.output<ReturnType<typeof quotesBody>>,
  sent: Sent,
  where: string,
): PlaceQuote[] {
  const keys = body.quotes.map(({ idempotency_key: key }, n) => [`${where}.quotes.${n}`, key]);
  checkIdempotencyKeys(sent, Object.fromEntries(keys));
  return body.quotes.map((item) =>
    placeQuoteOf({ ...item, not_after: body.not_after }, sent, item.idempotency_key),
  );
}

/** Of commands by their path. The route checks the key of a request. */
export function checkIdempotencyKeys(
  { actor }: Sent,
  keys: Readonly<Record<string, string | undefined>>,
): void {
  const lacking = Object.keys(keys).filter((path) => keys[path] === undefined);
  if (!requiresIdempotency(actor) || lacking.length === 0) return;
  throw invalidRequest(
    lacking.map((path) => ({
      path: `${path}.idempotency_key`,
      message: "is required, because the API key has require_idempotency",
    })),
  );
}

export function placeQuoteOf(
  body: z.output<typeof QuoteBody>,
  sent: Sent,
  idempotencyKey: string | undefined,
): PlaceQuote {
  const terms: QuoteKeyTerms = {
    requestId: body.request_id,
    price: body.price,
    side: body.side ?? null,
    replaces: body.replaces ?? null,
    expiresInSecs: body.expires_in_secs,
    label: body.label ?? null,
    confirmPrice: body.confirm_price === true ? true : undefined,
    backing: body.backing === "asset" ? undefined : body.backing,
  };
  return {
    op: "place_quote",
    ...sent,
    notAfter: body.not_after,
    quoteId: publicId(),
    ...terms,
    ...keyed(idempotencyKey, terms),
  };
}

export function acceptOf(body: z.output<typeof AcceptBody>, sent: Sent): Accept {
  const { quote_id: quoteId, request_id: requestId, price, side = null } = body;
  const given = { ...sent, notAfter: body.not_after, matchId: publicId() };
  if (quoteId !== undefined) return { op: "accept", ...given, quoteId };
  if (requestId === undefined || price === undefined) throw new Error("the schema requires both");
  return { op: "accept_price", ...given, requestId, price, side };
}
