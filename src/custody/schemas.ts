/** Requests and answers of the custody endpoints (contract.md section 4). */
import { z } from "@hono/zod-openapi";
import { U256Out } from "../assets/amount.ts";
import { VENUES } from "../platform/venues.ts";
import { address, assetId, decimalUnits, positiveU256, venueField } from "../assets/fields.ts";
import { LIMIT_DOCUMENTED, limitField, timeIdPage } from "../http/cursor.ts";
import { boolean, oneOf, pattern, preciseTimestamp, textField, uuidField } from "../http/fields.ts";
import { NEWEST } from "../ledger/history.ts";
import { REASONS } from "../ledger/codes.ts";
import { DEPOSIT_STATUSES, WITHDRAWAL_STATUSES } from "./records.ts";

const chainName = pattern(/^[a-z][a-z0-9-]{0,31}$/, "must be the name of a chain");
const clientWithdrawalId = pattern(
  /^[A-Za-z0-9._:-]{1,64}$/,
  "must be 1 to 64 of A-Z a-z 0-9 . _ : -",
);

const venueOut = z.enum(VENUES).nullable();
const assetIdOut = z
  .string()
  .nullable()
  .openapi({ description: "Canonical 0x hex; null, together with the venue, for USDC" });
const addressOut = z
  .string()
  .openapi({ description: "EIP-55", examples: ["0x52908400098527886E0F7030069857D2E4169EE7"] });
const hashOut = z.string().openapi({ description: "Transaction hash" });
const instant = z.iso.datetime();
const deltaOut = z
  .string()
  .regex(/^-?\d+$/)
  .openapi({ description: "Signed decimal native units", examples: ["-16000000000"] });

export const CreateDepositAddressBody = z.strictObject({ chain: chainName.optional() });

export const DepositAddress = z
  .object({
    address: addressOut,
    chain: z.string(),
    created_at: instant,
    current: z.boolean(),
    nonce: z.int(),
  })
  .openapi("DepositAddress");
export const DepositAddresses = z.object({ addresses: z.array(DepositAddress) });

export const BalanceQuery = z.strictObject({ venue_id: venueField, asset_id: assetId });
export const UsdcBalance = z
  .object({ balance: U256Out, pending_balance: U256Out })
  .openapi("UsdcBalance");
export const AssetBalance = z
  .object({ venue_id: venueOut, asset_id: assetIdOut, balance: U256Out, pending_balance: U256Out })
  .openapi("Balance");

export const DepositsQuery = z.strictObject({
  status: oneOf(DEPOSIT_STATUSES).optional(),
  ...timeIdPage,
});
export const Deposit = z
  .object({
    deposit_id: z.uuid(),
    chain: z.string(),
    address: addressOut,
    venue_id: venueOut,
    asset_id: assetIdOut,
    amount: U256Out,
    transaction_hash: hashOut,
    block_number: z.int(),
    confirmations: z.int(),
    required_confirmations: z.int(),
    status: z.enum(DEPOSIT_STATUSES),
    created_at: instant,
    credited_at: instant.nullable(),
  })
  .openapi("Deposit");

export const WithdrawBody = z
  .strictObject({
    client_withdrawal_id: clientWithdrawalId,
    amount: positiveU256,
    to_address: address,
    chain: chainName.optional(),
    venue_id: venueField.optional(),
    asset_id: assetId.optional(),
  })
  .refine((body) => (body.venue_id === undefined) === (body.asset_id === undefined), {
    path: ["asset_id"],
    message: "venue_id and asset_id go together; neither means USDC",
  });

export const WithdrawalsQuery = z.strictObject({
  status: oneOf(WITHDRAWAL_STATUSES).optional(),
  ...timeIdPage,
});
export const WithdrawalQuery = z
  .strictObject({
    withdrawal_id: uuidField.optional(),
    client_withdrawal_id: clientWithdrawalId.optional(),
  })
  .refine(
    (query) => (query.withdrawal_id === undefined) !== (query.client_withdrawal_id === undefined),
    {
      path: ["withdrawal_id"],
      message: "give exactly one of withdrawal_id and client_withdrawal_id",
    },
  );
export const Withdrawal = z
  .object({
    withdrawal_id: z.uuid(),
    job_id: z.uuid(),
    client_withdrawal_id: z.string(),
    chain: z.string(),
    venue_id: venueOut,
    asset_id: assetIdOut,
    amount: U256Out,
    to_address: addressOut,
    status: z.enum(WITHDRAWAL_STATUSES),
    transaction_hash: hashOut.nullable(),
    failure: z
      .object({ code: z.enum(["payment_reverted", "operator_failed"]), message: z.string() })
      .nullable(),
    created_at: instant,
    updated_at: instant,
  })
  .openapi("Withdrawal");

/** Any non-negative integer is a position; past the newest entry it is the newest one's. */
const ledgerCursor = textField(
  (text) => {
    if (!/^\d{1,200}$/.test(text)) return undefined;
    const before = BigInt(text);
    return { text, before: before > NEWEST ? NEWEST : before };
  },
  "must be a non-negative integer of at most 200 digits",
  {
    type: "string",
    pattern: "^[0-9]{1,200}$",
    examples: ["4211"],
    description: "`next_cursor` of the previous page; any entry_id will do",
  },
);

const reasonList = textField(
  (text) => {
    const named = text.split(",").map((word) => REASONS.find((reason) => reason === word.trim()));
    return named.every((reason) => reason !== undefined) ? named : undefined;
  },
  `must be a comma-separated list of ${REASONS.join(", ")}`,
  {
    type: "string",
    pattern: `^(${REASONS.join("|")})(,(${REASONS.join("|")}))*$`,
    examples: ["trade,fee"],
    description: "Comma-separated",
  },
);

const refId = textField(
  (text) =>
    /^0x[0-9a-fA-F]{64}$/.test(text) ||
    /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/.test(text)
      ? text.toLowerCase()
      : undefined,
  "must be a UUID or a 0x transaction hash",
  {
    type: "string",
    pattern: "^(0x[0-9a-fA-F]{64}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$",
    description: "Entries of one match, quote, withdrawal or deposit transaction",
  },
);

export const LedgerQuery = z
  .strictObject({
    account: oneOf(["available", "pending"]).optional(),
    asset_id: assetId.optional(),
    venue: venueField.optional(),
    direction: oneOf(["credit", "debit"]).optional(),
    from: preciseTimestamp.optional(),
    to: preciseTimestamp.optional(),
    min_amount: decimalUnits.optional(),
    max_amount: decimalUnits.optional(),
    reasons: reasonList.optional(),
    ref_id: refId.optional(),
    usdc: boolean.optional(),
    // No default here: a statement refuses a limit that was given.
    limit: limitField.removeDefault().optional().openapi(LIMIT_DOCUMENTED),
    last_cursor: ledgerCursor.optional(),
  })
  .refine((query) => query.from === undefined || query.to === undefined || query.from <= query.to, {
    path: ["from"],
    message: "must not be after to",
  });

export const LedgerEntry = z
  .object({
    entry_id: z.int().openapi({ format: "int64" }),
    account: z.enum(["available", "pending"]),
    asset_id: assetIdOut,
    venue: venueOut,
    delta: deltaOut,
    balance_after: z
      .string()
      .regex(/^\d+$/)
      .openapi({ description: "Decimal native units", examples: ["99999350000"] }),
    reason: z.enum(REASONS),
    ref_id: z.string(),
    created_at: instant,
  })
  .openapi("LedgerEntry");
