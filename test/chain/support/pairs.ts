/** A venue whose tokens are those of the real Conditional Tokens contract, on a stage. */
import { env } from "cloudflare:workers";
import { inject } from "vitest";
import {
  type Address,
  encodeFunctionData,
  encodePacked,
  erc20Abi,
  type Hex,
  keccak256,
  parseAbi,
  toHex,
  zeroHash,
} from "viem";
import { expect } from "vitest";
import type { VenueSettings } from "../../../src/platform/config.ts";
import { config } from "../../../src/platform/config.ts";
import { all, sql } from "../../../src/platform/sql.ts";
import { payHolders } from "../../../src/rfq/pairs/pay-holders.ts";
import { readResults } from "../../../src/rfq/pairs/read-results.ts";
import { watchChain } from "../../../src/custody/watcher/watch-chain.ts";
import { payRound } from "../../../src/custody/payer/pay-round.ts";
import { apiOf } from "../../support/http.ts";
import { newAsset, type TestAsset } from "../../support/ledger.ts";
import { orderOf, sendOrder } from "../../support/operator.ts";
import type { TestPair } from "../../support/pairs.ts";
import { newUser, type TestUser } from "../../support/users.ts";
import { type Depositor, openStage, type Stage } from "./stage.ts";

const CTF = parseAbi([
  "function prepareCondition(address oracle, bytes32 questionId, uint256 slots)",
  "function splitPosition(address, bytes32, bytes32, uint256[] partition, uint256 amount)",
  "function mergePositions(address, bytes32, bytes32, uint256[] partition, uint256 amount)",
  "function redeemPositions(address, bytes32, bytes32, uint256[] sets)",
  "function reportPayouts(bytes32 questionId, uint256[] payouts)",
  "function safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes data)",
  "function getCollectionId(bytes32, bytes32, uint256) view returns (bytes32)",
  "function getPositionId(address, bytes32) view returns (uint256)",
]);

export type PairStage = Awaited<ReturnType<typeof openPairs>>;
type Change = Parameters<Stage["faultyEndpoint"]>[0];

let questions = 0;

/** `lies`: changes of the answers of the second endpoint. */
export async function openPairs(lies: Change = (_, result) => result) {
  const bytecode = inject("conditionalTokens");
  if (bytecode === "") throw new Error("npm ci installs the contract that this test runs");
  const stage = await openStage();
  const ctf = await stage.deploy({ abi: [], bytecode }, []);
  await stage.vaultCall({
    abi: (await import("../../../contracts/abi/vault.ts")).vaultAbi,
    functionName: "setLimit",
    args: [ctf, 2, 0n, 1n << 90n],
  });
  await stage.mine();
  const state = { lies };
  const chain = {
    ...stage.chain,
    rpc_urls: [
      await stage.faultyEndpoint((_, result) => result),
      await stage.faultyEndpoint((...call) => state.lies(...call)),
    ],
  };
  const float: TestUser = await newUser();
  const venue_id = `ctf_${stage.chain.chain.slice(-12)}`;
  const venue: VenueSettings = {
    venue_id,
    chain: chain.chain,
    outcome_tokens: ctf,
    collateral: stage.usdc,
    float_account: float.userId,
    min_deposit: 1,
    min_request: 1,
    min_priced_trade: 1,
    taker_fee_bps: 0,
    maker_fee_bps: 0,
  };
  // Safe cast: a list of the settings of tests.
  const known = JSON.parse(env.CHAINS) as object[];
  const changes = {
    CHAINS: JSON.stringify([...known, { ...chain, default: false }]),
    VENUES: JSON.stringify([venue]),
    PAYER_KEYS: JSON.stringify(stage.settings.PAYER_KEYS),
  };
  const bindings: Env = { ...env, ...changes };
  const settings = config(bindings);
  const context = { ...stage.watcher, chain, settings };
  const asAdmin = async (data: Hex) => {
    await stage.asAdmin(ctf, data);
    await stage.mine();
  };
  const watch = () => watchChain(context);
  const confirm = async () => {
    await stage.mine(chain.confirmations);
    await watch();
    await watch();
  };
  await watch();
  return {
    stage,
    state,
    ctf,
    chain,
    settings,
    bindings,
    changes,
    venue_id,
    float,
    asAdmin,
    watch,
    confirm,
    api: (user: Parameters<typeof apiOf>[0]) => apiOf(user, changes),
    order: (command: string[], options: Record<string, string>) =>
      sendOrder(orderOf(command, options), changes),
    /** A user whose USDC is on the chain. */
    user: async (usdc: bigint): Promise<Depositor> => {
      const user = await stage.user();
      if (usdc > 0n) await stage.mintUsdc(user.address, usdc);
      await confirm();
      return user;
    },
    /** Rounds of the payer until nothing is in flight. */
    pay: async () => {
      const payer = await stage.payer({ chain, settings });
      for (let round = 0; round < 12; round++) {
        await payRound({ ...payer.context, firstEndpoint: 0 }).catch(() => {});
        await stage.mine();
        await watch();
      }
      await confirm();
    },
  };
}

export type Condition = TestPair & { readonly condition: Hex; readonly question: Hex };

/** Prepares a condition and lists its two tokens. */
export async function newCondition(on: PairStage): Promise<Condition> {
  const { stage, ctf, venue_id } = on;
  const question = toHex(++questions, { size: 32 });
  const oracle = stage.admin.address;
  await on.asAdmin(
    encodeFunctionData({
      abi: CTF,
      functionName: "prepareCondition",
      args: [oracle, question, 2n],
    }),
  );
  const condition = keccak256(
    encodePacked(["address", "bytes32", "uint256"], [oracle, question, 2n]),
  );
  const token = async (set: bigint): Promise<TestAsset> => {
    const read = { address: ctf, abi: CTF } as const;
    const collection = await stage.client.readContract({
      ...read,
      functionName: "getCollectionId",
      args: [zeroHash, condition, set],
    });
    const id = await stage.client.readContract({
      ...read,
      functionName: "getPositionId",
      args: [stage.usdc, collection],
    });
    const asset_id = toHex(id);
    return { ...newAsset(), venue_id, asset_id, key: `${venue_id}:${asset_id}` };
  };
  const [yes, no] = [await token(1n), await token(2n)];
  await on.confirm();
  const list = (asset: TestAsset, outcome: string, more: Record<string, string> = {}) =>
    on.order(["market", "set"], {
      venue: venue_id,
      "asset-id": asset.asset_id,
      title: `Question ${question}`,
      outcome,
      ...more,
    });
  expect((await list(yes, "Yes")).problem).toBe(undefined);
  expect((await list(no, "No", { condition })).problem).toBe(undefined);
  return { yes, no, condition, question };
}

/** Splits outside, as anybody can, and sends tokens to a deposit address. */
export async function depositTokens(
  { stage, ctf, asAdmin, confirm }: PairStage,
  { condition }: Condition,
  to: Address,
  deposits: readonly (readonly [TestAsset, bigint])[],
): Promise<void> {
  const admin = stage.admin.address;
  const most = deposits.reduce((max, [, amount]) => (amount > max ? amount : max), 0n);
  await stage.mintUsdc(admin, most);
  await stage.asAdmin(
    stage.usdc,
    encodeFunctionData({ abi: erc20Abi, functionName: "approve", args: [ctf, most] }),
  );
  await asAdmin(
    encodeFunctionData({
      abi: CTF,
      functionName: "splitPosition",
      args: [stage.usdc, zeroHash, condition, [1n, 2n], most],
    }),
  );
  for (const [{ asset_id }, amount] of deposits)
    await asAdmin(
      encodeFunctionData({
        abi: CTF,
        functionName: "safeTransferFrom",
        args: [admin, to, BigInt(asset_id), amount, "0x"],
      }),
    );
  await confirm();
}

export async function report(
  { asAdmin, confirm }: PairStage,
  { question }: Condition,
  payouts: readonly bigint[],
): Promise<void> {
  await asAdmin(
    encodeFunctionData({ abi: CTF, functionName: "reportPayouts", args: [question, payouts] }),
  );
  await confirm();
}

/** Cron reads the result, and reads it again once it has settled. */
export async function settle({ bindings }: PairStage): Promise<void> {
  await readResults(bindings);
  await readResults(bindings);
}

export async function payAll({ bindings }: PairStage): Promise<void> {
  await all(
    env.DB,
    sql`UPDATE ledger_checkpoints SET mark = '0', position = 0 WHERE scan = 'payouts'`,
  );
  while (await payHolders(bindings));
}
