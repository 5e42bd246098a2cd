/** Step 4: deposits on the chain are credited. */
import type { Address } from "viem";
import { Unmet, duration, expectEqual, short, units } from "./narrator.ts";
import { type Person, WAIT_MS, type World } from "./world.ts";

export const TAKER_USDC = 5_000_000_000n;
export const MAKER_USDC = 1_000_000_000n;
export const MAKER_TOKENS = 2_000_000_000n;

export async function deposit(world: World): Promise<void> {
  const { tell, faucet, taker, makers, asset } = world;
  const everyone = [taker, ...makers];
  const addresses = new Map<Person, Address>();
  for (const person of everyone) {
    const { address } = await tell.call(
      `POST /custody/create-deposit-address (${person.name})`,
      () => person.client.custody.createDepositAddress(),
      (it) => `201 ${it.address} on ${it.chain}`,
    );
    addresses.set(person, address as Address);
  }
  const sentAt = performance.now();
  const to = (person: Person) => addresses.get(person) ?? raise(`no address of ${person.name}`);
  const hashes = [await faucet.mint(null, to(taker), TAKER_USDC)];
  for (const maker of makers) {
    hashes.push(await faucet.mint(null, to(maker), MAKER_USDC));
    hashes.push(await faucet.mint(asset, to(maker), MAKER_TOKENS));
  }
  tell.note(
    `on the chain: ${units(TAKER_USDC)} USDC to the taker's address, ${units(MAKER_USDC)} USDC and ${units(MAKER_TOKENS)} outcome tokens to each maker's`,
  );

  const detected = await tell.wait(
    "all five deposits are seen, confirming",
    { timeoutMs: WAIT_MS },
    () => allDeposits(everyone, 5),
  );
  const first = detected.find(({ status }) => status === "confirming") ?? detected[0];
  if (first)
    tell.event(
      `GET /custody/get-deposits: ${first.status}, ${first.confirmations} of ${first.required_confirmations} confirmations, transaction ${short(first.transaction_hash)}`,
    );
  let credited = 0;
  await tell.wait(
    "all five deposits are credited",
    { timeoutMs: WAIT_MS, progress: () => `${credited} of ${hashes.length} credited` },
    async () => {
      const deposits = (await allDeposits(everyone, 5)) ?? [];
      const bad = deposits.find(({ status }) => status === "orphaned" || status === "quarantined");
      if (bad) throw new Unmet("every deposit to be credited", bad);
      credited = deposits.filter(({ status }) => status === "credited").length;
      return credited === hashes.length ? true : null;
    },
  );
  tell.fact(`5 deposits credited ${duration(performance.now() - sentAt)} after they were sent`);
  await checkPassedConfirming(world, hashes);
  await checkBalances(world);
}

async function allDeposits(people: Person[], count: number) {
  const lists = await Promise.all(people.map(({ client }) => client.custody.deposits().all()));
  const deposits = lists.flat();
  return deposits.length >= count ? deposits : null;
}

/** The account stream reports each deposit twice, when it is detected and when it is credited. */
async function checkPassedConfirming(world: World, hashes: string[]): Promise<void> {
  const { tell, taker } = world;
  const [seen, credited] = await tell.wait(
    "the taker's stream reports it",
    { timeoutMs: WAIT_MS },
    async () => {
      const first = await taker.account.find("deposit.detected");
      const second = await taker.account.find("deposit.credited");
      return first !== null && second !== null ? ([first, second] as const) : null;
    },
  );
  expectEqual("the deposit's status when it was detected", seen.data.status, "confirming");
  expectEqual(
    "the credited deposit's transaction",
    hashes.includes(credited.data.transaction_hash),
    true,
  );
  tell.event(
    `${seen.stream}: deposit.detected (confirming), ${duration(credited.atMs - seen.atMs)} later deposit.credited ${units(credited.data.amount)} USDC`,
  );
}

async function checkBalances({ tell, taker, makers, asset }: World): Promise<void> {
  const usdc = await tell.call(
    "GET /custody/get-usdc-balance (taker)",
    () => taker.client.custody.usdcBalance(),
    (it) => `200 ${units(it.balance)} available, ${units(it.pending_balance)} pending`,
  );
  expectEqual("the taker's USDC", usdc.balance, TAKER_USDC);
  for (const maker of makers) {
    const tokens = await maker.client.custody.balance(asset);
    expectEqual(`${maker.name}'s outcome tokens`, tokens.balance, MAKER_TOKENS);
    expectEqual(
      `${maker.name}'s USDC`,
      (await maker.client.custody.usdcBalance()).balance,
      MAKER_USDC,
    );
  }
}

function raise(message: string): never {
  throw new Error(message);
}
