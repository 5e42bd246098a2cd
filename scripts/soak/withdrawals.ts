/** Withdrawals of a soak, and cancels that race with the payer. */
import { Problem } from "../../packages/client/src/index.ts";
import { ASSETS, type Asset, nameOf, USDC } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { note, type Person, type World } from "./world.ts";

const CANCEL_CHANCE = 0.2;

export async function withdraw(world: World, dice: Dice): Promise<void> {
  const person = dice.pick(world.people);
  const asset = dice.pick(ASSETS);
  const part =
    asset === USDC
      ? await person.client.custody.usdcBalance()
      : await person.client.custody.balance(asset);
  const amount = dice.part(part.balance);
  // Sometimes sent twice at once, which must make one withdrawal.
  const times = dice.chance(0.15) ? 2 : 1;
  await withdrawAmount(world, dice, { person, asset, amount, times });
}

/** Sends the same withdrawal so many times at once. */
export async function withdrawAmount(
  { refuser, tally }: Pick<World, "refuser" | "tally">,
  dice: Dice,
  terms: { person: Person; asset: Asset; amount: bigint; times: number },
): Promise<void> {
  const { person, asset, amount, times } = terms;
  const cancels = dice.chance(CANCEL_CHANCE);
  const to = asset !== USDC && dice.chance(0.05) ? refuser : dice.hex(20);
  const id = `soak-${dice.hex(8)}`;
  const asked = { asset, amount, to, answered: false };
  person.withdrawals.set(id, asked);
  const body = {
    client_withdrawal_id: id,
    amount,
    to_address: to,
    ...(asset === USDC ? {} : asset),
  };
  const responses = await Promise.allSettled(
    Array.from({ length: times }, () => person.client.custody.withdraw(body)),
  );
  if (cancels) await cancel(person, { client_withdrawal_id: id }, tally);
  for (const response of responses) {
    if (response.status === "fulfilled") asked.answered = true;
    else note(tally, `withdraw ${nameOf(asset)}`, response.reason);
  }
  if (asked.answered) tally.count("operation", "withdrawal");
}

/** Races with the payer: it applies only while no signed transaction contains the withdrawal. */
export async function cancel(
  { client }: Pick<Person, "client">,
  id: { client_withdrawal_id: string } | { withdrawal_id: string },
  tally: World["tally"],
): Promise<void> {
  try {
    const { status } = await client.custody.cancelWithdrawal(id);
    tally.count("operation", "withdrawal cancelled");
    if (status !== "cancelled") tally.odd.push(`a cancelled withdrawal is ${status}`);
  } catch (error) {
    // The withdrawal itself may have been rejected.
    if (error instanceof Problem && error.code === "withdrawal_unknown") return;
    note(tally, "cancel a withdrawal", error);
  }
}
