import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { type Address } from "viem";
import tokensArtifact from "../../contracts/artifacts/LocalOutcomeTokens.json" with { type: "json" };
import usdcArtifact from "../../contracts/artifacts/LocalUSDC.json" with { type: "json" };
import vaultArtifact from "../../contracts/artifacts/Vault.json" with { type: "json" };
import { heldBy as tokenHeldBy } from "../../scripts/stack/tokens.ts";
import { depositAddressFor } from "../../src/chain/addresses.ts";
import { USDC } from "../../src/assets/asset.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { ERC1155, ERC20, NATIVE_COIN } from "../../src/chain/token.ts";
import {
  type MistakenTransfer,
  planRescue,
  type RescuePlan,
  type RescueStep,
} from "../../src/chain/plan-rescue.ts";
import { trackedHoldings } from "../../src/reconcile/tracked-holdings.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { checkHoldings } from "../../src/reconcile/check-holdings.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { funded } from "./support/drive.ts";
import { type Depositor, openStage, type Stage, someone } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

const DAY = 86_400;

let stage: Stage;
let user: Depositor;
/** A token that the service does not know. */
let stray: Address;

beforeEach(async () => {
  stage = await openStage();
  user = await funded(stage);
  stray = await stage.deploy(usdcArtifact, []);
  await stage.mine();
});

const mistaken = (transfer: Partial<MistakenTransfer> = {}): MistakenTransfer => ({
  chain: stage.chain,
  asset: { kind: ERC20, token: stray, tokenId: 0n },
  to: someone(),
  amount: 70n,
  from: undefined,
  ...transfer,
});

/** The user's deposit address with its salt. */
function atUser() {
  const { userId, address } = user;
  return { address, salt: depositAddressFor(stage.settings, stage.chain, userId, 0).salt };
}

async function refusal(transfer: Partial<MistakenTransfer>): Promise<string> {
  const plan = await planRescue(stage.settings, mistaken(transfer));
  return "refused" in plan ? plan.refused : "";
}

async function planned(transfer: MistakenTransfer): Promise<RescuePlan> {
  const plan = await planRescue(stage.settings, transfer);
  if ("refused" in plan) throw new Error(plan.refused);
  return plan;
}

/** Makes the calls that the plan names, one after the other, and returns their names. */
async function carryOut(transfer: MistakenTransfer): Promise<RescueStep[]> {
  const steps: RescueStep[] = [];
  do {
    const { next, reason, calls } = await planned(transfer);
    const call = calls[next];
    if (call === undefined || reason !== null) throw new Error(`${next}: ${reason}`);
    expect(call.from).toBe(stage.admin.address);
    await stage.asAdmin(call.to, call.data);
    await stage.mine();
    steps.push(next);
  } while (steps.at(-1) !== "rescue");
  return steps;
}

const mint = (to: Address, amount: bigint, contract = stray) =>
  stage.mint({ contract }, to, amount);

const heldBy = (holder: Address, contract = stray) =>
  tokenHeldBy(stage.client, { contract }, holder);

/** The books, which a rescue must leave as they are. */
async function books() {
  await stage.confirm();
  await stage.watch();
  const holdingsAt = trackedHoldings(env.DB, stage.settings);
  const { block, differences, surplus } = await checkHoldings(
    env.DB,
    stage.chain.chain,
    holdingsAt,
  );
  expect({ block, differences }).toEqual({ block: expect.any(Number) as number, differences: [] });
  return {
    surplus,
    balance: await readBalance(env.DB, user.userId, USDC),
    transfers: await all(env.DB, sql`SELECT count(*) AS n FROM transfers`),
  };
}

it("returns a token from a deposit address and leaves the books alone", async () => {
  const before = await books();
  await mint(user.address, 100n);
  await stage.mine();
  const transfer = mistaken({ from: atUser() });
  expect(await carryOut(transfer)).toEqual(["grantRole", "sweep", "scheduleRescue", "rescue"]);
  expect(await heldBy(transfer.to)).toBe(70n);
  expect(await heldBy(stage.vault)).toBe(30n);
  expect(await books()).toEqual(before);
  // The admin has the role now, and the vault still holds some.
  await mint(user.address, 100n);
  await stage.mine();
  expect(await carryOut(transfer)).toEqual(["sweep", "scheduleRescue", "rescue"]);
});

itDeeper("returns the native coin and an ERC-1155 id", async () => {
  await stage.client.setBalance({ address: user.address, value: 70n });
  const coin = mistaken({ asset: NATIVE_COIN, from: atUser() });
  expect(await carryOut(coin)).toEqual(["grantRole", "sweep", "scheduleRescue", "rescue"]);
  expect(await stage.client.getBalance({ address: coin.to })).toBe(70n);

  const ids = await stage.deploy(tokensArtifact, []);
  await stage.mint({ contract: ids, id: 9n }, stage.vault, 70n);
  await stage.mine();
  const id = mistaken({ asset: { kind: ERC1155, token: ids, tokenId: 9n } });
  expect(await carryOut(id)).toEqual(["scheduleRescue", "rescue"]);
  expect(await tokenHeldBy(stage.client, { contract: ids, id: 9n }, id.to)).toBe(70n);
});

itDeeper("shows from when on a scheduled rescue can be made", async () => {
  const { admin, operator, vault: old } = stage;
  const vault = await stage.deploy(vaultArtifact, [
    0,
    admin.address,
    operator.address,
    admin.address,
    2 * DAY,
    old,
  ]);
  await stage.mine();
  Object.assign(stage.chain, { vault });
  await mint(vault, 70n);
  await stage.mine();
  const transfer = mistaken();
  const first = await planned(transfer);
  expect(first).toMatchObject({ next: "scheduleRescue", reason: null, executable: null });
  await stage.asAdmin(vault, first.calls.scheduleRescue?.data ?? "0x");
  await stage.mine();
  const waiting = await planned(transfer);
  expect(waiting).toMatchObject({ next: "rescue", reason: expect.stringContaining("TooEarly") });
  const { timestamp } = await stage.client.getBlock();
  expect(waiting.executable).toEqual({
    from: timestamp + BigInt(2 * DAY),
    until: timestamp + BigInt(16 * DAY),
  });
  await stage.client.increaseTime({ seconds: 2 * DAY });
  await stage.mine();
  expect(await carryOut(transfer)).toEqual(["rescue"]);
  // One that was not carried out in time has to be scheduled again.
  await mint(vault, 70n);
  await stage.asAdmin(vault, first.calls.scheduleRescue?.data ?? "0x");
  await stage.mine();
  await stage.client.increaseTime({ seconds: 17 * DAY });
  await stage.mine();
  expect(await planned(transfer)).toMatchObject({ next: "scheduleRescue", executable: null });
});

it("plans nothing that users own or that is not there", async () => {
  const credited = "The service credits that token, so it belongs to users.";
  const ofUsers = { kind: ERC20, token: stage.usdc, tokenId: 0n } as const;
  expect(await refusal({ asset: ofUsers })).toBe(credited);
  const outcome = { kind: ERC1155, token: stage.tokens, tokenId: 7n } as const;
  expect(await refusal({ asset: outcome })).toBe(credited);
  expect(await refusal({})).toContain("The vault holds 0 of it");
  const nothing = { kind: ERC20, token: someone(), tokenId: 0n } as const;
  expect(await refusal({ asset: nothing })).toContain("is not a contract");
  await mint(stage.vault, 70n);
  await stage.vaultCall({
    abi: vaultAbi,
    functionName: "setLimit",
    args: [stray, 0, 0n, 0n],
  });
  await stage.mine();
  expect((await planned(mistaken())).reason).toBe(`HasLimit(${stray})`);
});
