/** The requests and responses of the custody routes (docs/contract.md, section 4). */
import * as z from "zod";
import {
  address,
  assetId,
  decimalUnits,
  positiveU256,
  venueField,
  venueOut as tokenVenue,
} from "../assets/asset-fields.ts";
import { LIMIT_DOCUMENTED, limitField, timeIdPage } from "../http/cursor.ts";
import {
  boolean,
  described,
  notAfter,
  oneOf,
  pattern,
  preciseTimestamp,
  listOf,
  textField,
  uuidField,
  u256Out,
} from "../http/fields.ts";
import { NEWEST } from "../ledger/history.ts";
import { REASONS } from "../ledger/codes.ts";
import { LISTED_DEPOSIT_STATUSES, WITHDRAWAL_STATUSES, FAILURE_CODES } from "./column-values.ts";

export const chainName = pattern(/^[a-z][a-z0-9-]{0,31}$/, "must be the name of a chain");
const clientWithdrawalId = pattern(
  /^[A-Za-z0-9._:-]{1,64}$/,
  "must be 1 to 64 of A-Z a-z 0-9 . _ : -",
);

function optional<Schema extends z.ZodType>(schema: Schema, description: string) {
  return described(schema, description).optional();
}
const id = (description: string) => described(z.uuid(), description);
const count = (description: string) => described(z.int(), description);
const instant = (description: string) => described(z.iso.datetime(), description);
const chainOut = (description: string) => described(z.string(), description);
const addressOut = (description: string) =>
  z.string().meta({ description, examples: ["0x52908400098527886E0F7030069857D2E4169EE7"] });
const decimalOut = (rule: RegExp, description: string, example: string) =>
  z
    .string()
    .regex(rule)
    .meta({ description, examples: [example] });
const venueOut = tokenVenue("Venue of the outcome token; null for USDC").nullable();
const assetIdOut = described(
  z.string().nullable(),
  "Outcome token, as canonical 0x hex; null for USDC",
);

export const CreateDepositAddressBody = z.strictObject({
  chain: optional(chainName, "A chain of GET /config; omitted: its default chain"),
});

export const DepositAddress = z
  .object({
    address: addressOut("Where to send USDC and outcome tokens, in EIP-55 form"),
    chain: chainOut("The chain on which deposits to this address are credited"),
    created_at: instant("When it was issued"),
    current: z.boolean().meta({
      description: "Whether it is your newest address on this chain; older ones stay valid",
    }),
    nonce: count("Number of the address among yours on this chain, from 0"),
  })
  .meta({ id: "DepositAddress" });
export const DepositAddresses = z.object({
  addresses: described(z.array(DepositAddress), "Newest first"),
});

export const BalanceQuery = z.strictObject({
  venue_id: described(venueField, "Venue of the outcome token"),
  asset_id: assetId,
});
const balances = {
  balance: u256Out("Native units that are available to trade and withdraw"),
  pending_balance: u256Out("Native units that are set aside for quotes and withdrawals"),
  promised: u256Out("Of these, what your open quotes reserve. It has no ledger entries"),
};
export const UsdcBalance = z.object(balances).meta({ id: "UsdcBalance" });
export const AssetBalance = z
  .object({ venue_id: venueOut, asset_id: assetIdOut, ...balances })
  .meta({ id: "Balance" });

export const DepositsQuery = z.strictObject({
  status: optional(oneOf(LISTED_DEPOSIT_STATUSES), "Only deposits with this status"),
  ...timeIdPage,
});
export const Deposit = z
  .object({
    deposit_id: id("Identifies the deposit"),
    chain: chainOut("The chain of the transfer"),
    address: addressOut("The deposit address that received it, in EIP-55 form"),
    venue_id: venueOut,
    asset_id: assetIdOut,
    amount: u256Out("Native units of the asset"),
    transaction_hash: described(z.string(), "The transaction, as 0x hex"),
    block_number: count("The block that contains the transaction"),
    confirmations: count("Blocks from block_number up to the head, both included"),
    required_confirmations: count("Confirmations before it is credited"),
    status: z.enum(LISTED_DEPOSIT_STATUSES).meta({
      description:
        "`orphaned`: its block left the chain before it was credited. `quarantined`: the ledger " +
        "cannot hold the amount, so the operator handles it. `below_minimum`: confirmed, and " +
        "credited once the address has received `min_deposit` of the asset in total",
    }),
    created_at: instant("When it was detected"),
    credited_at: instant("When it was credited; null before").nullable(),
  })
  .meta({ id: "Deposit" });

export const WithdrawBody = z
  .strictObject({
    client_withdrawal_id: clientWithdrawalId.meta({
      description:
        "Your id of the withdrawal. Repeating it never pays twice. Case matters, unless it has " +
        "the form of a UUID, which is stored in lower case",
    }),
    amount: positiveU256,
    to_address: address,
    chain: optional(chainName, "The chain that pays USDC; omitted: the default chain"),
    venue_id: optional(venueField, "Venue of the outcome token; omitted for USDC"),
    asset_id: assetId.optional(),
    not_after: notAfter,
  })
  .refine((body) => (body.venue_id === undefined) === (body.asset_id === undefined), {
    path: ["asset_id"],
    message: "venue_id and asset_id must both be given, or neither for USDC",
  })
  .meta({ dependentRequired: { venue_id: ["asset_id"], asset_id: ["venue_id"] } });

export const WithdrawalsQuery = z.strictObject({
  status: optional(oneOf(WITHDRAWAL_STATUSES), "Only withdrawals with this status"),
  ...timeIdPage,
});
/** Either id of a withdrawal. */
export const WithdrawalQuery = z
  .strictObject({
    withdrawal_id: optional(uuidField, "The service's id"),
    client_withdrawal_id: optional(clientWithdrawalId, "Your id"),
  })
  .refine(
    (query) => (query.withdrawal_id === undefined) !== (query.client_withdrawal_id === undefined),
    {
      path: ["withdrawal_id"],
      message: "exactly one of withdrawal_id and client_withdrawal_id must be given",
    },
  );
export const Withdrawal = z
  .object({
    withdrawal_id: id("Identifies the withdrawal"),
    job_id: id("Identifies the payment job"),
    client_withdrawal_id: described(z.string(), "The id that you gave, a UUID in lower case"),
    chain: chainOut("The chain that pays"),
    venue_id: venueOut,
    asset_id: assetIdOut,
    amount: u256Out("Native units of the asset that to_address receives"),
    to_address: addressOut("The destination, in EIP-55 form"),
    status: z.enum(WITHDRAWAL_STATUSES).meta({
      description:
        "`awaiting_approval`: its amount is reserved, and it needs your approval. `queued`: its " +
        "amount is reserved. `submitted`: a transaction is signed. `settled`: the payment is " +
        "confirmed. `failed`, `cancelled`: it was not paid and its amount is available again",
    }),
    approval_expires_at: instant(
      "When a withdrawal that is not approved is cancelled. Null if it needs, or needed, none",
    ).nullable(),
    transaction_hash: z.string().nullable().meta({
      description: "As 0x hex; null before it is submitted, may change until it is settled",
    }),
    failure: z
      .object({
        code: z.enum(FAILURE_CODES).meta({
          description:
            "`payment_reverted`: the destination or the token refused it. `operator_failed`: the " +
            "operator cancelled it. `approval_expired`: it was not approved in time",
        }),
        message: described(z.string(), "The reason as text"),
      })
      .nullable()
      .meta({ description: "Why it failed; null unless it has" }),
    created_at: instant("When it was queued"),
    updated_at: instant("When it last changed"),
  })
  .meta({ id: "Withdrawal" });

/** Any non-negative integer is a position. One above the newest entry counts as the newest. */
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
    description: "`next_cursor` of the previous page, or any entry_id",
  },
);

const REF_ID = /^(0x[0-9a-fA-F]{64}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$/;
const refId = textField(
  (text) => (REF_ID.test(text) ? text.toLowerCase() : undefined),
  "must be a UUID or a 0x transaction hash",
  {
    type: "string",
    pattern: REF_ID.source,
    description: "Only entries of this match, quote, withdrawal or deposit transaction",
  },
);

export const LedgerQuery = z
  .strictObject({
    account: optional(oneOf(["available", "pending"]), "Only entries of this sub-account"),
    asset_id: assetId.optional(),
    venue: optional(venueField, "Only outcome tokens of this venue"),
    direction: optional(
      oneOf(["credit", "debit"]),
      "Only credits (delta above 0) or debits (below 0)",
    ),
    from: optional(preciseTimestamp, "Only entries created at or after this instant"),
    to: optional(preciseTimestamp, "Only entries created at or before this instant"),
    min_amount: optional(
      decimalUnits,
      "Only entries of at least this amount; decimal native units",
    ),
    max_amount: optional(decimalUnits, "Only entries of at most this amount; decimal native units"),
    reasons: optional(
      listOf(REASONS),
      "Only entries with one of these reasons, separated by commas",
    ),
    ref_id: refId.optional(),
    usdc: optional(boolean, "`true`: only USDC. `false`: only outcome tokens"),
    // Without a default, because a statement rejects a limit that is given.
    limit: limitField.removeDefault().optional().meta(LIMIT_DOCUMENTED),
    last_cursor: ledgerCursor.optional(),
  })
  .refine((query) => query.from === undefined || query.to === undefined || query.from <= query.to, {
    path: ["from"],
    message: "must not be after to",
  });

export const LedgerEntry = z
  .object({
    entry_id: z
      .int()
      .meta({ format: "int64", description: "Unique and increasing; deduplicate by it" }),
    account: described(
      z.enum(["available", "pending"]),
      "`available`: yours to use, open quotes included. `pending`: reserved for withdrawals",
    ),
    asset_id: assetIdOut,
    venue: venueOut,
    delta: decimalOut(/^-?\d+$/, "Native units, decimal; negative for a debit", "-16000000000"),
    balance_after: decimalOut(
      /^\d+$/,
      "Balance of this account and asset after the entry, decimal native units",
      "99999350000",
    ),
    reason: described(z.enum(REASONS), "What caused the entry"),
    ref_id: z.string().meta({
      description: "Id of the match, quote or withdrawal, or the deposit's transaction hash",
    }),
    created_at: instant("When it was written"),
  })
  .meta({ id: "LedgerEntry" });
