/**
 * Users of a soak whose large withdrawals wait for their approval, which races with a cancel and
 * with the payer. Also the address book and the policy of an account.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Address } from "viem";
import { type CodeSource, nextCode } from "../actors/callers.ts";
import { USDC } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { note, type Person, withSession, type World } from "./world.ts";
import { cancel } from "./withdrawals.ts";

/** Withdrawals of a day that need no approval. The first of a soak exceeds it. */
const APPROVAL_ABOVE = 1_000_000n;
const CODE_WAIT_MS = 1_000;

/** Turns TOTP on and lets withdrawals wait. */
export async function wantApprovals(person: Person): Promise<void> {
  const { session, password } = person;
  const { secret } = await session.auth.startTotp({ password });
  const codes: CodeSource = {
    totpSecret: undefined,
    newTotpSecret: secret,
    recoveryCodes: [],
    totpStep: 0,
  };
  const totp_code = nextCode(codes, { confirms: true }) ?? "";
  const confirmed = await session.auth.confirmTotp({ totp_code });
  person.codes = { ...codes, totpSecret: secret, recoveryCodes: confirmed.recovery_codes };
  await session.auth.setPolicy({
    password,
    totp_code: await untilCode(person.codes),
    withdraw_approval_above: APPROVAL_ABOVE,
  });
}

/** Waits for a code that was not used, at most half a minute. */
export async function untilCode(codes: CodeSource): Promise<string> {
  for (;;) {
    const code = nextCode(codes);
    if (code !== undefined) return code;
    await sleep(CODE_WAIT_MS);
  }
}

/** Approves a withdrawal that waits, cancels it, or does both at once. */
export async function approve(world: World, dice: Dice): Promise<void> {
  const { people, tally } = world;
  const person = dice.pick(people.filter(({ codes }) => codes !== undefined));
  if (person.codes === undefined || person.busy.has("approval")) return;
  person.busy.add("approval");
  try {
    const { items } = await person.client.custody
      .withdrawals({ status: "awaiting_approval", limit: 20 })
      .page();
    const [waiting] = items.length === 0 ? [] : [dice.pick(items)];
    if (waiting === undefined) return;
    const { withdrawal_id } = waiting;
    const totp_code = nextCode(person.codes);
    const what = totp_code === undefined ? "cancel" : dice.pick(["approve", "approve", "both"]);
    const moves: Promise<void>[] = [];
    if (totp_code !== undefined)
      moves.push(approveOne(person, { withdrawal_id, totp_code }, tally));
    if (what !== "approve") moves.push(cancel(person, { withdrawal_id }, tally));
    await Promise.all(moves);
  } finally {
    person.busy.delete("approval");
  }
}

async function approveOne(
  person: Person,
  { withdrawal_id, totp_code }: { readonly withdrawal_id: string; readonly totp_code: string },
  tally: World["tally"],
): Promise<void> {
  const { password } = person;
  try {
    await withSession(person, (session) =>
      session.custody.approveWithdrawal({ withdrawal_id, password, totp_code }),
    );
    tally.count("operation", "withdrawal approved");
  } catch (error) {
    note(tally, "approve", error);
  }
}

/** Adds an address to the book of a user without TOTP, lists the book, and removes one. */
export async function addressBook({ people, tally }: World, dice: Dice): Promise<void> {
  const person = dice.pick(people.filter(({ codes }) => codes === undefined));
  const { password } = person;
  await withSession(person, async ({ custody }) => {
    const address: Address = dice.hex(20);
    const { address_id } = await custody.createWithdrawalAddress({
      address,
      label: "soak",
      password,
    });
    const { items } = await custody.withdrawalAddresses().page();
    if (items.length === 0) tally.odd.push(`${person.email}: the address book is empty`);
    await custody.removeWithdrawalAddress({ address_id });
  });
  tally.count("operation", "address book");
}

/** Lowers the limit of a user without TOTP and lifts it again, which applies at once here. */
export async function policy({ people, tally }: World, dice: Dice): Promise<void> {
  const person = dice.pick(people.filter(({ codes }) => codes === undefined));
  const { password } = person;
  await withSession(person, async ({ auth }) => {
    const limit = BigInt(dice.between(1, 100)) * 10n ** 12n;
    await auth.setPolicy({ password, max_trade_usdc_per_day: limit });
    const { used } = await auth.policy();
    if (used.trade_usdc < 0n) tally.odd.push(`${person.email}: ${USDC} of a day below zero`);
    await auth.setPolicy({ password, max_trade_usdc_per_day: null });
  });
  tally.count("operation", "policy");
}
