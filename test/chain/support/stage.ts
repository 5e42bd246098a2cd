/**
 * Fixture of the chain tests in workerd: a fresh anvil chain with the contracts, contexts of
 * watcher and payer, users, and helpers that act on the chain.
 */
import { env } from "cloudflare:workers";
import { inject } from "vitest";
import {
  type Abi,
  type Address,
  createTestClient,
  encodeDeployData,
  encodeFunctionData,
  getAddress,
  getContractAddress,
  type Hex,
  http,
  parseEther,
  publicActions,
  toHex,
  walletActions,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import factoryArtifact from "../../../contracts/artifacts/DepositFactory.json" with { type: "json" };
import recipientArtifact from "../../../contracts/artifacts/HostileRecipient.json" with { type: "json" };
import tokensArtifact from "../../../contracts/artifacts/LocalOutcomeTokens.json" with { type: "json" };
import usdcArtifact from "../../../contracts/artifacts/LocalUSDC.json" with { type: "json" };
import vaultArtifact from "../../../contracts/artifacts/Vault.json" with { type: "json" };
import { ANVIL_CHAIN } from "../../../scripts/stack/anvil-chain.ts";
import { localOutcomeTokensAbi } from "../../../scripts/stack/abi/local-outcome-tokens.ts";
import { heldBy, mintCall, type Token } from "../../../scripts/stack/tokens.ts";
import { vaultAbi } from "../../../contracts/abi/vault.ts";
import { depositAddressFor } from "../../../src/chain/addresses.ts";
import { paymentId } from "../../../src/chain/payment-id.ts";
import { termsMac } from "../../../src/ledger/withdrawal-mac.ts";
import { type ChainConfig, type Config, config } from "../../../src/platform/config.ts";
import type { AlertKind } from "../../../src/platform/alert-kinds.ts";
import { commit, newGroup } from "../../../src/platform/commit.ts";
import { all, blob, first, sql, uuid } from "../../../src/platform/sql.ts";
import { uuidv7 } from "../../../src/platform/uuid.ts";
import { post } from "../../../src/ledger/post.ts";
import { announceWithdrawals } from "../../../src/custody/custody-events.ts";
import type { WithdrawalRecord } from "../../../src/custody/payer/withdrawal-record.ts";
import { takeLease } from "../../../src/custody/payer/payer-lease.ts";
import { payRound, type PayRound } from "../../../src/custody/payer/pay-round.ts";
import { type WatchRound, watchChain } from "../../../src/custody/watcher/watch-chain.ts";
import type { AnvilUrl } from "./provided.ts";
import { accountStream, type StreamEvent } from "../../../src/streams/event-log.ts";
import { notifyStreams } from "../../../src/streams/notify.ts";
import { newAddress } from "../../support/ledger.ts";
import { testChain } from "../../support/chain-config.ts";
import { connect, type Subscriber } from "../../support/sockets.ts";
import { answerAlert } from "../../support/pager.ts";
import { newUser, type TestUser } from "../../support/users.ts";
import type { PayerContext } from "../../../src/custody/payer/payer-context.ts";
import type { WatcherContext } from "../../../src/custody/watcher/commit-move.ts";

const admin = privateKeyToAccount(
  "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
);
const NO_LIMIT = 1n << 90n;
const GAS = 8_000_000n;
const ZERO: Address = "0x0000000000000000000000000000000000000000";

type Change = (method: string, result: unknown, params: unknown) => unknown;
type Call = { id: number; method: string; params: unknown };
const faultyEndpoints = new Map<
  string,
  { node: string; change: Change; ask: (call: Call) => Call; hangs: (method: string) => boolean }
>();
const realFetch = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const url = typeof input === "string" ? input : input instanceof URL ? input.href : input.url;
  const faulty = faultyEndpoints.get(url);
  if (faulty === undefined) return realFetch(input, init);
  const call = faulty.ask(
    JSON.parse(
      typeof init?.body === "string"
        ? init.body
        : await new Response(input instanceof Request ? input.body : null).text(),
    ) as Call,
  );
  if (faulty.hangs(call.method)) return new Response(new ReadableStream());
  const response = (await (
    await realFetch(faulty.node, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(call),
    })
  ).json()) as { result: unknown };
  try {
    return Response.json({
      ...response,
      result: await faulty.change(call.method, response.result, call.params),
    });
  } catch (error) {
    return Response.json({
      jsonrpc: "2.0",
      id: call.id,
      error: { code: -32000, message: error instanceof Error ? error.message : "refused" },
    });
  }
};

export type Stage = Awaited<ReturnType<typeof openStage>>;

export type StageOptions = {
  readonly confirmations?: number;
  readonly chain?: Partial<ChainConfig>;
  readonly other?: boolean;
  readonly usdc?: { abi: unknown; bytecode: string };
};

/** The anvil of this worker. Its files run one after the other. */
export function anvilUrl(): AnvilUrl {
  const url = inject("anvilUrls")[Number(process.env["VITEST_POOL_ID"]) - 1];
  if (url === undefined) throw new Error("this worker has no anvil");
  return url;
}

/**
 * Resets this worker's anvil, or with `other` the one that only one file may use.
 * Only `mine` and `confirm` mine blocks.
 */
export async function openStage(options: StageOptions = {}) {
  const url = options.other === true ? inject("otherAnvilUrl") : anvilUrl();
  const client = await openClient(url);
  const operatorKey: Hex = toHex(crypto.getRandomValues(new Uint8Array(32)));
  const operator = privateKeyToAccount(operatorKey);
  await client.setBalance({ address: operator.address, value: parseEther("100") });

  const { deploy, asAdmin, replay } = adminOf(client);
  const vault = await deploy(vaultArtifact, [
    0,
    admin.address,
    operator.address,
    admin.address,
    0,
    ZERO,
  ]);
  const factory = await deploy(factoryArtifact, [0, admin.address, operator.address, vault, 0]);
  const usdc = await deploy(options.usdc ?? usdcArtifact, []);
  const tokens = await deploy(tokensArtifact, []);
  const hostile = await deploy(recipientArtifact, []);
  const vaultCall = (call: Parameters<typeof encodeFunctionData<typeof vaultAbi>>[0]) =>
    asAdmin(vault, encodeFunctionData(call));
  const mint = (token: Token, to: Address, amount: bigint) => {
    const call = mintCall(token, to, amount);
    return asAdmin(call.to, call.data);
  };
  const setLimit = (token: Address, kind: number) =>
    vaultCall({ abi: vaultAbi, functionName: "setLimit", args: [token, kind, 0n, NO_LIMIT] });
  await setLimit(usdc, 0);
  await setLimit(tokens, 2);
  await client.setAutomine(false);
  await client.mine({ blocks: 1 });

  const chain = testChain({
    chain: `chain-${uuidv7().slice(-12)}`,
    rpc_urls: [url],
    factory,
    vault,
    usdc,
    ...(options.confirmations && { confirmations: options.confirmations }),
    ...options.chain,
  });
  const base = config(env);
  const settings: Config = {
    ...base,
    CHAINS: [chain],
    VENUES: [
      {
        venue_id: "venue_one",
        chain: chain.chain,
        outcome_tokens: tokens,
        min_deposit: 1,
        min_request: 1,
        min_priced_trade: 1,
        taker_fee_bps: 0,
        maker_fee_bps: 0,
      },
    ],
    PAYER_KEYS: { [chain.chain]: operatorKey },
  };
  /** The payer's recovery records. */
  const records = new Map<string, WithdrawalRecord>();
  const pushed: StreamEvent[] = [];
  const push = async (events: readonly StreamEvent[]): Promise<void> => {
    pushed.push(...events);
    await notifyStreams(env, events);
  };
  const watcher: WatcherContext = {
    db: env.DB,
    settings,
    chain,
    push,
  };

  const stage = {
    records,
    client,
    chain,
    settings,
    vault,
    factory,
    usdc,
    tokens,
    hostile,
    operator,
    admin,
    pushed,
    watcher,
    deploy,
    asAdmin,
    vaultCall,
    watch: (): Promise<WatchRound> => watchChain(watcher),
    mine: (blocks = 1) => client.mine({ blocks }),
    /** Replaces the last `depth` blocks by `instead` empty ones. Their transactions are dropped. */
    reorg: async (depth: number, instead = depth) => {
      await client.request({ method: "anvil_rollback" as never, params: [depth] as never });
      await client.request({ method: "anvil_dropAllTransactions" as never, params: [] as never });
      const { timestamp } = await client.getBlock();
      if (instead > 0) {
        await client.setNextBlockTimestamp({ timestamp: timestamp + 977n });
        await client.mine({ blocks: instead });
      }
    },
    replay,
    /** URL of a proxy to anvil whose responses can be changed, delayed or rejected. */
    faultyEndpoint: async (
      change: Change,
      ask: (call: Call) => Call = (call) => call,
      hangs: (method: string) => boolean = () => false,
    ): Promise<string> => {
      const faulty = `http://faulty-${uuidv7()}.test/`;
      faultyEndpoints.set(faulty, { node: url, change, ask, hangs });
      return faulty;
    },
    rpc: (method: string, params: unknown[]): Promise<unknown> =>
      client.request({ method: method as never, params: params as never }),
    /** Mines the confirmations and lets the watcher confirm them, which credits deposits. */
    confirm: async () => {
      await client.mine({ blocks: chain.confirmations });
      await watchChain(watcher);
    },
    payer: async (extra: Partial<PayerContext> = {}) => {
      const saveRecords = async (added: readonly WithdrawalRecord[]): Promise<void> =>
        added.forEach((record) => records.set(record.paymentId, record));
      const context: PayerContext = {
        db: env.DB,
        settings,
        chain,
        token: uuidv7(),
        push,
        saveRecords,
        ...extra,
      };
      await takeLease(env.DB, chain.chain, context.token);
      return { context, round: (): Promise<PayRound> => payRound(context) };
    },
    user: () => newDepositor(chain, settings),
    mint,
    mintUsdc: (to: Address, amount: bigint) => mint({ contract: usdc }, to, amount),
    mintTokens: (to: Address, id: bigint, amount: bigint) =>
      mint({ contract: tokens, id }, to, amount),
    mintBatch: (to: Address, ids: bigint[], amounts: bigint[]) =>
      asAdmin(
        tokens,
        encodeFunctionData({
          abi: localOutcomeTokensAbi,
          functionName: "mintBatch",
          args: [to, ids, amounts],
        }),
      ),
    usdcOf: (of: Address) => heldBy(client, { contract: usdc }, of),
    tokensOf: (of: Address, id: bigint) => heldBy(client, { contract: tokens, id }, of),
    withdraw: (userId: string, asset: string, amount: bigint, to: Address, clientId?: string) =>
      queueWithdrawal(settings, chain, userId, { asset, amount, to, clientId }),
    ...readsOf(chain),
    paidCount: async (id: Hex) =>
      (
        await client.getContractEvents({
          address: vault,
          abi: vaultAbi,
          eventName: "Paid",
          args: { id },
          fromBlock: 0n,
        })
      ).length,
  };
  return stage;
}

/** A chain without blocks, whose transactions the admin sends. */
async function openClient(url: string) {
  const client = createTestClient({
    mode: "anvil",
    chain: ANVIL_CHAIN,
    transport: http(url),
    account: admin,
    cacheTime: 0,
  })
    .extend(publicActions)
    .extend(walletActions);
  await client.request({ method: "anvil_reset" as never, params: [] as never });
  // A reset also puts the chain's clock back, to the instant at which anvil started.
  await client.request({ method: "evm_setTime" as never, params: [Date.now()] as never });
  await client.setAutomine(true);
  await client.setBalance({ address: admin.address, value: parseEther("1000") });
  return client;
}

/** Deployments and calls of the admin, whose nonces are counted here. */
function adminOf(client: Awaited<ReturnType<typeof openClient>>) {
  let nonce = 0n;
  const deploy = async (
    artifact: { abi: unknown; bytecode: string },
    args: readonly unknown[],
  ): Promise<Address> => {
    const address = getContractAddress({ from: admin.address, nonce });
    // Safe cast: the artifact is JSON that the compiler generated.
    const data = encodeDeployData({
      abi: artifact.abi as Abi,
      bytecode: artifact.bytecode as Hex,
      args,
    });
    await client.sendTransaction({ data, gas: GAS, nonce: Number(nonce++) });
    return address;
  };
  /** Raw transactions of the admin by nonce, to resend those that a reorg removed. */
  const sent = new Map<number, Hex>();
  const asAdmin = async (to: Address, data: Hex): Promise<Hex> => {
    const raw = await admin.signTransaction({
      type: "eip1559",
      chainId: 31_337,
      to,
      data,
      gas: 2_000_000n,
      nonce: Number(nonce),
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 1n,
    });
    sent.set(Number(nonce++), raw);
    return client.sendRawTransaction({ serializedTransaction: raw });
  };
  return {
    deploy,
    asAdmin,
    /** Resends the admin's transactions that a reorg removed. */
    replay: async () => {
      const used = await client.getTransactionCount({ address: admin.address });
      for (let lost = used; sent.has(lost); lost++)
        await client
          .sendRawTransaction({ serializedTransaction: sent.get(lost) as Hex })
          .catch(() => {});
    },
  };
}

/** What the tests read of a chain's records, and an operator's answer to its alerts. */
function readsOf(chain: ChainConfig) {
  return {
    deposits: (userId: string) =>
      all<{ status: string; amount: string; block_number: number; asset: string }>(
        env.DB,
        sql`SELECT status, amount, block_number, asset FROM deposits
          WHERE user_id = ${uuid(userId)} ORDER BY block_number, ordinal, position`,
      ),
    withdrawal: (id: string) =>
      first<{ status: string; hash: string | null; failure_code: string | null }>(
        env.DB,
        sql`SELECT status, iif(transaction_hash IS NULL, NULL,
          lower(hex(transaction_hash))) AS hash, failure_code FROM withdrawals
          WHERE withdrawal_id = ${uuid(id)}`,
      ),
    alerts: async () =>
      (
        await all<{ kind: string }>(
          env.DB,
          sql`SELECT kind FROM alerts WHERE subject LIKE ${`${chain.chain}%`}
            AND resolved_at IS NULL ORDER BY alert_id`,
        )
      ).map((row) => row.kind),
    /** Of the service of this chain alone, whose objects the test runs itself. */
    answerAlert: (
      kind: AlertKind,
      end?: () => Promise<unknown>,
      { subject = chain.chain, bindings = {} } = {},
    ): Promise<unknown> => {
      const asleep = { getByName: () => ({ wake: async () => {} }) };
      const objects = { CHAIN_WATCHER: asleep, PAYER: asleep };
      const service = { CHAINS: JSON.stringify([chain]), VENUES: "[]", ...objects, ...bindings };
      return answerAlert(kind, subject, { bindings: service, ...(end && { end }) });
    },
    events: async (userId: string) =>
      (
        await all<{ type: string }>(
          env.DB,
          sql`SELECT e.type FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
            WHERE s.name = ${`account:${userId}`} ORDER BY e.seq`,
        )
      ).map((row) => row.type),
  };
}

/** A user with a deposit address on the chain. */
export type Depositor = TestUser & { readonly address: Address };

async function newDepositor(chain: ChainConfig, settings: Config): Promise<Depositor> {
  const user = await newUser();
  const { address, salt } = depositAddressFor(settings, chain, user.userId, 0);
  await all(
    env.DB,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES (${chain.chain}, ${blob(address)}, ${uuid(user.userId)}, 0, ${blob(salt)}, 0)`,
  );
  return { ...user, address };
}

/** Queues a withdrawal as the route does: record and reserve in one group. */
async function queueWithdrawal(
  settings: Config,
  chain: ChainConfig,
  userId: string,
  terms: { asset: string; amount: bigint; to: Address; clientId?: string | undefined },
): Promise<{ id: string; paymentId: Hex }> {
  const id = uuidv7();
  const clientId = terms.clientId ?? `w-${id}`;
  const payment = paymentId(settings, userId, clientId);
  const mac = termsMac(
    settings,
    {
      withdrawalId: id,
      userId,
      clientWithdrawalId: clientId,
      paymentId: payment,
      chain: chain.chain,
      asset: terms.asset,
      amount: terms.amount.toString(),
      toAddress: terms.to,
    },
    false,
  );
  const group = newGroup();
  const result = await commit(env.DB, group, [
    sql`INSERT INTO withdrawals (withdrawal_id, job_id, user_id, client_withdrawal_id, payment_id,
      chain, asset, amount, to_address, status, created_at, updated_at, queued_group, changed_group,
      terms_mac)
      VALUES (${uuid(id)}, ${uuid(uuidv7())}, ${uuid(userId)}, ${clientId}, ${blob(payment)},
        ${chain.chain}, ${terms.asset}, ${terms.amount}, ${blob(terms.to)}, 'queued',
        ${group.at}, ${group.at}, ${group.seq}, ${group.seq}, ${mac})`,
    ...post(group, {
      reason: "withdrawal",
      step: "queue",
      from: "available",
      to: "pending",
      source: sql`SELECT user_id AS from_owner, user_id AS to_owner, asset, amount,
        withdrawal_id AS ref, 0 AS line FROM withdrawals WHERE queued_group = ${group.seq}`,
    }),
    ...announceWithdrawals(group),
  ]);
  if (!result.committed) throw new Error("withdrawal not queued", { cause: result.cause });
  return { id, paymentId: payment };
}

/** A subscriber of the user's account stream. */
export function listen(user: TestUser): Promise<Subscriber> {
  return connect(user, accountStream(user.userId));
}

export function someone(): Address {
  return getAddress(newAddress());
}
