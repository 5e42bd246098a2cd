/** The routes of /custody. Each handler calls one verb (docs/contract.md, section 4). */
import { orReceipt, RECEIPT_TEXT, RECEIPT_TYPE } from "../audit/receipt.ts";
import { prefers } from "../http/accept.ts";
import * as z from "zod";
import { assetKey, USDC } from "../assets/asset.ts";
import { paymentLimit } from "../chain/payment-limit.ts";
import { verifyFactory } from "../chain/verify-factory.ts";
import { readBalance } from "../ledger/balance.ts";
import { pageSchema, timeIdPage } from "../http/cursor.ts";
import { errorFields, log } from "../platform/log.ts";
import { route } from "../http/define-route.ts";
import { near } from "../platform/near.ts";
import { readUuid } from "../platform/sql.ts";
import { notifyStreams } from "../streams/notify.ts";
import { chainNamed, checkDestination, withdrawalChain } from "./check-destination.ts";
import { createDepositAddress, listDepositAddresses } from "./deposit-address.ts";
import { amounts, balancePage, balanceView, listBalances } from "./list-balances.ts";
import { ownRecords } from "../archive/ask-history.ts";
import { listEntries, csvResponse } from "./list-entries.ts";
import {
  findWithdrawal,
  listDeposits,
  listWithdrawals,
  type WithdrawalRow,
  withdrawalView,
} from "./payment-records.ts";
import * as schema from "./schemas.ts";
import { type WithdrawTerms, withdraw } from "./withdraw.ts";
import { address } from "../assets/asset-fields.ts";
import { stepUpFields } from "../auth/schemas.ts";
import { requireFresh, STEP_UP_PROBLEMS, stepUp } from "../auth/step-up.ts";
import { boundedText, described, uuidField } from "../http/fields.ts";
import { approveWithdrawal } from "./approve-withdrawal.ts";
import {
  createWithdrawalAddress,
  listWithdrawalAddresses,
  removeWithdrawalAddress,
  WithdrawalAddress,
} from "./withdrawal-addresses.ts";
import { cancelWithdrawal } from "./cancel-withdrawal.ts";
import { type Api, reply } from "../http/route-definition.ts";

const READ = { tag: "Custody", credential: "any", scope: "read", method: "get" } as const;
/** What the holder of a withdraw key needs to know before and after a withdrawal. */
const PAYER_READ = { ...READ, keyScopes: ["read", "withdraw"] } as const;
const SESSION = { tag: "Custody", credential: "session" } as const;

export function registerCustodyRoutes(app: Api): void {
  registerAddressRoutes(app);
  registerBalanceRoutes(app);
  registerWithdrawalRoutes(app);
  registerDecisionRoutes(app);
  registerWithdrawalReads(app);
  registerAddressBookRoutes(app);
}

function registerAddressRoutes(app: Api): void {
  route(app, {
    ...READ,
    method: "post",
    path: "/custody/create-deposit-address",
    operationId: "createDepositAddress",
    summary: "Issue a deposit address on a chain",
    description: "It becomes the current one. Deposits to earlier addresses are still credited.",
    body: schema.CreateDepositAddressBody,
    response: schema.DepositAddress,
    status: 201,
    problems: ["chain_unknown", "deposit_address_limit", "daily_limit"],
    handler: async ({ env, db, settings, body, actor, clientIp }) => {
      const chain = chainNamed(settings, body.chain);
      await verifyFactory(env, chain);
      const watcher = near(env, env.CHAIN_WATCHER, chain.chain);
      return createDepositAddress(db, settings, {
        actor,
        chain,
        ip: clientIp,
        remember: (record) => watcher.saveAddressRecord(record),
      });
    },
  });
  route(app, {
    ...READ,
    path: "/custody/get-deposit-addresses",
    operationId: "listDepositAddresses",
    summary: "List deposit addresses, newest first",
    description:
      "All addresses stay valid. `current` marks the newest of each chain. The list has " +
      "no pages.",
    response: schema.DepositAddresses,
    handler: async ({ db, actor }) => ({ addresses: await listDepositAddresses(db, actor.userId) }),
  });
  route(app, {
    ...READ,
    path: "/custody/get-deposits",
    operationId: "listDeposits",
    summary: "List deposits, newest first",
    description: "Deposits that wait for confirmations are listed, too.",
    query: schema.DepositsQuery,
    response: pageSchema(schema.Deposit),
    handler: ({ db, actor, query }) => listDeposits(db, actor.userId, query),
  });
}

function registerBalanceRoutes(app: Api): void {
  route(app, {
    ...READ,
    path: "/custody/get-balance",
    operationId: "getBalance",
    summary: "Get the balance of an outcome token",
    description:
      "`pending_balance` is what withdrawals and open quotes set aside. An asset that you " +
      "never held has zeros.",
    query: schema.BalanceQuery,
    response: schema.AssetBalance,
    handler: async ({ db, actor, query }) => {
      const asset = assetKey({ venue: query.venue_id, assetId: query.asset_id });
      return balanceView(asset, await readBalance(db, actor.userId, asset));
    },
  });
  route(app, {
    ...READ,
    path: "/custody/get-balances",
    operationId: "listBalances",
    summary: "List the balances of all assets held",
    description: "USDC comes first, then outcome tokens by venue and asset id.",
    query: z.strictObject({ ...balancePage }),
    response: pageSchema(schema.AssetBalance),
    handler: ({ db, actor, query }) => listBalances(db, actor.userId, query),
  });
  route(app, {
    ...READ,
    path: "/custody/get-usdc-balance",
    operationId: "getUsdcBalance",
    summary: "Get the balance of USDC",
    description: "`pending_balance` is what withdrawals and open quotes set aside.",
    response: schema.UsdcBalance,
    handler: async ({ db, actor }) => amounts(await readBalance(db, actor.userId, USDC)),
  });
  route(app, {
    ...READ,
    path: "/custody/get-ledger",
    operationId: "listLedgerEntries",
    summary: "List ledger entries, newest first",
    description:
      "At any time, the entries of an asset sum to `balance + pending_balance`, and those of " +
      "`available` to `balance + promised`: an open quote has no entry yet. " +
      "An entry must match all filters. `next_cursor` is the entry_id of the last item. A page with " +
      "filters that few old entries match may be short, with a `next_cursor` to continue. With " +
      "`accept: text/csv` the response is a statement of all matching entries. Its last line is " +
      "`# end,<rows>`. Without that line it is incomplete.",
    query: schema.LedgerQuery,
    response: pageSchema(schema.LedgerEntry),
    otherMediaTypes: ["text/csv"],
    handler: ({ db, env, settings, actor, query, request }) => {
      const venues = settings.VENUES.map(({ venue_id }) => venue_id);
      const { old } = ownRecords(env, actor.userId);
      return prefers(request.headers.get("accept"), "text/csv")
        ? csvResponse(db, actor, query, venues, old)
        : listEntries(db, actor.userId, query, venues, old);
    },
  });
}

function registerWithdrawalRoutes(app: Api): void {
  route(app, {
    tag: "Custody",
    credential: "api_key",
    scope: "withdraw",
    method: "post",
    path: "/custody/withdraw",
    operationId: "withdraw",
    repeatable: true,
    summary: "Queue a withdrawal to an external address",
    description:
      "`to_address` receives exactly `amount`, because the service pays the gas. A repeated " +
      "client_withdrawal_id with the same terms returns the existing withdrawal.",
    body: schema.WithdrawBody,
    response: schema.Withdrawal,
    status: 202,
    responseHeaders: {
      "idempotency-replayed": "`true` when an earlier call queued the withdrawal",
    },
    problems: [
      "session_cannot_withdraw",
      "address_not_listed",
      "account_limit",
      "chain_unknown",
      "client_withdrawal_id_reused",
      "deadline_passed",
      "withdrawals_paused",
      "withdrawal_amount_limit",
      "withdrawal_daily_limit",
      "destination_refused",
      "insufficient_funds",
      "chain_liquidity",
    ],
    handler: async ({ env, db, settings, body, actor, clientIp, waitUntil }) => {
      const asset =
        body.venue_id === undefined || body.asset_id === undefined
          ? USDC
          : assetKey({ venue: body.venue_id, assetId: body.asset_id });
      const chain = withdrawalChain(settings, asset, body.chain);
      checkDestination(settings, body.to_address);
      const terms: WithdrawTerms = {
        clientWithdrawalId: body.client_withdrawal_id,
        amount: body.amount,
        toAddress: body.to_address,
        chain: chain.chain,
        asset,
      };
      const { row, replayed, events } = await withdraw(db, settings, {
        actor,
        terms,
        notAfter: body.not_after,
        vaultLimit: await paymentLimit(settings, chain, asset),
        ip: clientIp,
      });
      if (replayed) return reply(withdrawalView(row), { "idempotency-replayed": "true" });
      waitUntil(notifyStreams(env, events));
      if (row.status === "queued") waitUntil(sendWakeUp(env, row));
      return withdrawalView(row);
    },
  });
}

function registerDecisionRoutes(app: Api): void {
  route(app, {
    ...SESSION,
    rateClass: "withdraw",
    method: "post",
    path: "/custody/approve-withdrawal",
    operationId: "approveWithdrawal",
    summary: "Approve a withdrawal that waits for approval",
    description:
      "Takes the password and a fresh one-time code. The guard checks freeze, pause, the address " +
      "book and `withdraw_max_usdc_per_day` again.",
    body: z.strictObject({
      ...stepUpFields,
      withdrawal_id: described(uuidField, "Id of the withdrawal"),
    }),
    response: schema.Withdrawal,
    problems: [
      ...STEP_UP_PROBLEMS,
      "totp_not_enabled",
      "withdrawal_unknown",
      "withdrawal_not_approvable",
      "withdrawals_paused",
      "address_not_listed",
      "account_limit",
      "chain_liquidity",
    ],
    handler: async ({ env, db, settings, actor, body, clientIp, waitUntil }) => {
      const { withdrawal_id: withdrawalId, ...fields } = body;
      const approval = { actor, withdrawalId, fields, ip: clientIp };
      const { row, events } = await approveWithdrawal(db, settings, approval);
      waitUntil(notifyStreams(env, events));
      waitUntil(sendWakeUp(env, row));
      return withdrawalView(row);
    },
  });
  route(app, {
    tag: "Custody",
    credential: "any",
    keyScopes: ["withdraw"],
    rateClass: "withdraw",
    method: "delete",
    path: "/custody/withdraw",
    operationId: "cancelWithdrawal",
    repeatable: true,
    summary: "Cancel a withdrawal",
    description:
      "A session may call it, or an API key with the scope `withdraw`. Applies only while no signed " +
      "transaction has ever contained the withdrawal. Its amount is available again. A repeat " +
      "returns the cancelled withdrawal. Give exactly one of the ids.",
    fields: schema.WithdrawalQuery,
    response: schema.Withdrawal,
    problems: ["withdrawal_unknown", "withdrawal_not_cancellable", "withdrawals_paused"],
    handler: async ({ env, db, actor, fields, clientIp, waitUntil }) => {
      const { row, events } = await cancelWithdrawal(db, { actor, id: fields, ip: clientIp });
      waitUntil(notifyStreams(env, events));
      return withdrawalView(row);
    },
  });
}

function registerWithdrawalReads(app: Api): void {
  route(app, {
    ...PAYER_READ,
    path: "/custody/get-withdrawals",
    operationId: "listWithdrawals",
    summary: "List withdrawals, newest first",
    description: "Withdrawals of every status, unless `status` names one.",
    query: schema.WithdrawalsQuery,
    response: pageSchema(schema.Withdrawal),
    handler: ({ db, actor, query }) => listWithdrawals(db, actor.userId, query),
  });
  route(app, {
    ...PAYER_READ,
    path: "/custody/get-withdrawal",
    operationId: "getWithdrawal",
    summary: "Get a withdrawal by either of its ids",
    description:
      "Give exactly one of the two ids. `client_withdrawal_id` finds a withdrawal whose " +
      `response was lost. ${RECEIPT_TEXT}`,
    query: schema.WithdrawalQuery,
    response: schema.Withdrawal,
    otherMediaTypes: [RECEIPT_TYPE],
    problems: ["withdrawal_unknown"],
    handler: async (call) => {
      const withdrawal = await findWithdrawal(call.db, call.actor.userId, call.query);
      return orReceipt(call, "withdrawal", withdrawalView(withdrawal));
    },
  });
}

function registerAddressBookRoutes(app: Api): void {
  route(app, {
    ...SESSION,
    method: "post",
    path: "/custody/create-withdrawal-address",
    operationId: "createWithdrawalAddress",
    summary: "Add an address to the address book",
    description:
      "Withdrawals may go there from `active_from` on, after `AUTH_SECURITY_DELAY_SECS`. An address " +
      "that is listed is returned as it is.",
    body: z.strictObject({
      ...stepUpFields,
      chain: schema.chainName
        .meta({ description: "Chain of the address; omitted: the default chain" })
        .optional(),
      address,
      label: described(boundedText(1, 64), "Name of the address, for the user's list"),
    }),
    response: WithdrawalAddress,
    status: 201,
    notices: true,
    problems: [...STEP_UP_PROBLEMS, "chain_unknown", "withdrawal_address_limit"],
    handler: async ({ db, settings, actor, body, clientIp }) => {
      const { chain: named, address: to, label, ...fields } = body;
      const { chain } = chainNamed(settings, named);
      const checked = await stepUp(db, settings, { actor, fields, clientIp });
      const entry = { actor: checked.actor, ip: clientIp, chain, address: to, label };
      return createWithdrawalAddress(db, settings, entry);
    },
  });
  route(app, {
    ...PAYER_READ,
    path: "/custody/get-withdrawal-addresses",
    operationId: "listWithdrawalAddresses",
    summary: "List the address book, newest first",
    description: "Each entry says when it becomes usable under the policy `withdraw_listed_only`.",
    query: z.strictObject(timeIdPage),
    response: pageSchema(WithdrawalAddress),
    handler: ({ db, actor, query }) => listWithdrawalAddresses(db, actor.userId, query),
  });
  route(app, {
    ...SESSION,
    method: "delete",
    path: "/custody/withdrawal-address",
    operationId: "removeWithdrawalAddress",
    summary: "Remove an address from the address book, at once",
    description:
      "Takes a session of a login at most `fresh_session_secs` of GET /config ago, because adding " +
      "the address again takes `AUTH_SECURITY_DELAY_SECS`.",
    fields: z.strictObject({ address_id: described(uuidField, "Id of the entry") }),
    response: WithdrawalAddress,
    notices: true,
    problems: ["password_required", "withdrawal_address_unknown"],
    handler: ({ db, settings, actor, fields, clientIp }) => {
      requireFresh(settings, actor);
      const { address_id: addressId } = fields;
      return removeWithdrawalAddress(db, { actor, ip: clientIp, addressId });
    },
  });
}

/** Wakes the payer by a queue message. Never throws, because cron wakes it too. */
async function sendWakeUp(env: Cloudflare.Env, row: WithdrawalRow): Promise<void> {
  const message = { withdrawal_id: readUuid(row.withdrawal_id), chain: row.chain };
  try {
    await env.WITHDRAWALS.send(message);
  } catch (error) {
    log("warn", "custody.wake_up_not_sent", { ...message, ...errorFields(error) });
  }
}
