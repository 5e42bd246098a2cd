/** Puts a deposit and the payer's sweep of the same address into one block. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, decodeFunctionData, type Hex, isAddressEqual } from "viem";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { cloneAddress } from "../../src/chain/addresses.ts";
import type { Deployment } from "../stack/deploy-contracts.ts";
import { type Asset, ASSETS, tokenOfAsset, USDC } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { withdrawAmount } from "./withdrawals.ts";
import { note, type World } from "./world.ts";

type PendingTransaction = { hash: Hex; to: Address | null; input: Hex; maxFeePerGas?: Hex };
type Sweep = { hash: Hex; maxFee: bigint; asset: Asset; address: Address };

/** How long blocks wait for the payer's sweep. */
const SWEEP_WAIT_MS = 6_000;
const LOOK_EVERY_MS = 100;

/**
 * Stops mining, makes the payer sweep by a withdrawal that the vault cannot pay, mints to an
 * address of the sweep, and mines one block. The fees decide which of the two comes first.
 */
export async function depositWithSweep(world: World, dice: Dice): Promise<void> {
  const { chain, tally } = world;
  await chain.alone(async () => {
    await withdrawMoreThanVaultHolds(world, dice).catch((error: unknown) =>
      note(tally, "withdraw", error),
    );
    const sweep = await findSweep(world, dice);
    if (sweep === undefined) return;
    const { asset, address, maxFee } = sweep;
    const amount = BigInt(dice.between(1, 1_000_000));
    const deposit = await chain.mint(
      asset,
      address,
      amount,
      dice.chance(0.5) ? maxFee - 1n : undefined,
    );
    await chain.client.mine({ blocks: 1 });
    const { transactions } = await chain.client.getBlock();
    const [swept, deposited] = [transactions.indexOf(sweep.hash), transactions.indexOf(deposit)];
    if (swept === -1 || deposited === -1) return;
    tally.count("operation", `deposit ${deposited < swept ? "before" : "after"} its sweep`);
  });
}

async function withdrawMoreThanVaultHolds(world: World, dice: Dice): Promise<void> {
  const { chain, people, stack } = world;
  for (let tries = 0; tries < people.length; tries++) {
    const [person, asset] = [dice.pick(people), dice.pick(ASSETS)];
    const [held, { balance }] = await Promise.all([
      chain.holding(asset, stack.deployment.vault),
      asset === USDC ? person.client.custody.usdcBalance() : person.client.custody.balance(asset),
    ]);
    if (balance <= held) continue;
    return withdrawAmount(world, dice, { person, asset, amount: balance, times: 1 });
  }
}

/** A sweep in the mempool with one of its addresses. Undefined if the payer does not send one. */
async function findSweep({ chain, stack }: World, dice: Dice): Promise<Sweep | undefined> {
  const { deployment } = stack;
  for (const deadline = Date.now() + SWEEP_WAIT_MS; Date.now() < deadline;) {
    const { pending } = (await chain.rpc("txpool_content")) as {
      pending: Record<string, Record<string, PendingTransaction>>;
    };
    for (const transaction of Object.values(pending).flatMap((byNonce) => Object.values(byNonce))) {
      const items = sweepItems(transaction, deployment);
      if (items.length === 0) continue;
      const { hash, maxFeePerGas = "0x0" } = transaction;
      return { hash, maxFee: BigInt(maxFeePerGas), ...dice.pick(items) };
    }
    await sleep(LOOK_EVERY_MS);
  }
  return undefined;
}

function sweepItems(
  { to, input }: PendingTransaction,
  deployment: Deployment,
): Pick<Sweep, "asset" | "address">[] {
  if (to === null || !isAddressEqual(to, deployment.factory)) return [];
  const call = decodeFunctionData({ abi: depositFactoryAbi, data: input });
  if (call.functionName !== "sweep") return [];
  return call.args[0].flatMap(({ token, tokenId, salt }) => {
    const asset = ASSETS.find((one) => {
      const { contract, id = 0n } = tokenOfAsset(deployment, one);
      return isAddressEqual(token, contract) && id === tokenId;
    });
    return asset === undefined ? [] : [{ asset, address: cloneAddress(deployment.factory, salt) }];
  });
}
