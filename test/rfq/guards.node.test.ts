import { expect, it, vi } from "vitest";
import { mintApiKey } from "../../src/auth/mint-key.ts";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import { payerAccount } from "../../src/chain/payer-account.ts";
import { createDepositAddress } from "../../src/custody/deposit-address.ts";
import { storeTransaction } from "../../src/custody/payer/make-transaction.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import type { Actor, SessionActor } from "../../src/platform/actor.ts";
import { newGroup } from "../../src/platform/commit.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { acceptQuote } from "../../src/rfq/accept-quote.ts";
import { cancelQuote } from "../../src/rfq/cancel-quote.ts";
import { cancelRequest } from "../../src/rfq/cancel-request.ts";
import { openRequest } from "../../src/rfq/open-request.ts";
import type { Operation } from "../../src/rfq/book-operation.ts";
import { placeQuote } from "../../src/rfq/place-quote.ts";
import { printStable, RecordingDatabase } from "../support/node/recording-database.ts";
import { testSettings } from "../support/settings.ts";
import { openRequestTerms, placeQuoteTerms } from "../support/terms.ts";

const settings = config(testSettings());
const chain = defaultChain(settings);
const userId = "0196f0c2-0000-7000-8000-000000000001";
const recordId = "0196f0c2-0000-7000-8000-000000000002";
const newId = "0196f0c2-0000-7000-8000-000000000003";
const apiKeyId = "0196f0c2-0000-7000-8000-000000000004";
const actor: Actor = {
  userId,
  scopes: ["read", "trade", "withdraw"],
  credential: { kind: "api_key", apiKeyId },
};
const session: SessionActor = {
  userId,
  scopes: ["read", "trade"],
  credential: { kind: "session", epoch: 0, issuedAtMs: 0, expiresAtMs: 1_800_000_000_000 },
};
const asset = "venue_one:0x1";
const to = "0x52908400098527886E0F7030069857D2E4169EE7";
const call = { to, data: "0x00", gasLimit: 100_000n } as const;
const fees = { maxFee: 2n, priorityFee: 1n };

/** The first statement of the verb's batch after the one that opens the commit group. */
async function guardOf(verb: (db: D1Database) => Promise<unknown>): Promise<string> {
  const recorder = new RecordingDatabase();
  // A guard that does not apply ends in a rejection, which is not looked at here.
  await verb(recorder.d1).catch(() => {});
  const commit = recorder.batches.find(([first]) => first?.text.includes("INTO commit_groups"));
  const guard = commit?.[1];
  if (guard === undefined) throw new Error("the verb committed nothing");
  return printStable(guard);
}

function guardOfOperation(operation: Operation): string {
  const [guard] = operation.statements(newGroup());
  if (guard === undefined) throw new Error("the operation has no statements");
  return printStable(guard);
}

const withKey = { key: "k-1", terms: "{}" };
const terms = { clientWithdrawalId: "w-1", amount: 5n, toAddress: to, chain: "local", asset };
const pay = {
  kind: "pay",
  batchNo: 7,
  members: [recordId],
  call,
  nonce: 3,
  fees,
  headNumber: 1,
} as const;

const sent = { actor, receivedAt: 1_764_551_330_000 };
const timed = { ...sent, notAfter: 1_764_551_331_000 };

it("compiles every guard to the reviewed SQL", async () => {
  vi.useFakeTimers({ now: sent.receivedAt, toFake: ["Date"] });
  const payer = {
    settings,
    chain,
    token: newId,
    push: () => Promise.resolve(),
    saveRecords: () => Promise.resolve(),
  };
  const account = payerAccount(settings, chain);
  const guards: readonly (readonly [string, string])[] = [
    [
      "Open a request, with an idempotency key",
      guardOfOperation(
        openRequest(
          {
            op: "open_request",
            ...timed,
            requestId: newId,
            ...openRequestTerms({ asset, amount: "100" }),
            idempotency: withKey,
          },
          settings,
        ),
      ),
    ],
    [
      "Place a quote: its trigger has the guard (migrations/*_place_quote.sql)",
      guardOfOperation(
        placeQuote(
          {
            op: "place_quote",
            ...timed,
            quoteId: newId,
            ...placeQuoteTerms({ requestId: recordId, price: 650_000 }),
            idempotency: withKey,
          },
          { asset, amount: 100n, usdcAmount: null, side: "Bid" },
          settings,
        ),
      ),
    ],
    [
      "Accept a quote",
      guardOfOperation(
        acceptQuote({ op: "accept", ...timed, matchId: newId, quoteId: recordId }, settings),
      ),
    ],
    [
      "Accept the best quote at a price",
      guardOfOperation(
        acceptQuote(
          {
            op: "accept_price",
            ...timed,
            matchId: newId,
            requestId: recordId,
            price: 650_000,
            side: null,
          },
          settings,
        ),
      ),
    ],
    [
      "Accept a quote, by a session",
      guardOfOperation(
        acceptQuote(
          { op: "accept", ...timed, actor: session, matchId: newId, quoteId: recordId },
          settings,
        ),
      ),
    ],
    [
      "Cancel a quote",
      guardOfOperation(
        cancelQuote({ op: "cancel_quote", ...sent, operationId: newId, quoteId: recordId }),
      ),
    ],
    [
      "Cancel a request",
      guardOfOperation(
        cancelRequest({ op: "cancel_request", ...sent, operationId: newId, requestId: recordId }),
      ),
    ],
    [
      "Queue a withdrawal",
      await guardOf((db) =>
        withdraw(db, settings, { actor, terms, notAfter: timed.notAfter, ip: undefined }),
      ),
    ],
    [
      "Create a deposit address",
      await guardOf((db) =>
        createDepositAddress(db, settings, { actor: session, chain, ip: undefined }),
      ),
    ],
    [
      "Mint an API key",
      await guardOf((db) =>
        mintApiKey(db, settings, {
          actor: session,
          key: {
            label: "k",
            scopes: ["read"],
            allowedIps: null,
            limits: null,
            requireIdempotency: false,
          },
          ip: undefined,
        }),
      ),
    ],
    [
      "Freeze a user",
      await guardOf((db) => freezeUser(db, settings, { userId, operator: "alice" })),
    ],
    [
      "Store a signed payment",
      await guardOf((db) => storeTransaction({ ...payer, account, db }, pay)),
    ],
    [
      "Store a signed void",
      await guardOf((db) =>
        storeTransaction({ ...payer, account, db }, { ...pay, kind: "void", batchNo: null }),
      ),
    ],
  ];
  const printed = guards.map(([name, guard]) => `-- ${name}\n${guard}`);
  await expect(printed.join("\n")).toMatchFileSnapshot("guards.snapshot.sql");
});
