import {
  type Address,
  type Hex,
  encodeFunctionData,
  hexToString,
  padHex,
  toFunctionSelector,
  zeroHash,
} from "viem";
import { expect, it } from "vitest";
import {
  type Chain,
  type Payment,
  REASON,
  STATE,
  ZERO,
  id32,
  outcomesOf,
  someone,
  vaultWorld,
} from "./chain.ts";

export function hostileTests(chain: Chain): void {
  const { payer, admin } = chain;

  /** What a token can do instead of transferring. */
  const MISBEHAVIOURS = [
    "REVERTS",
    "BURNS_GAS",
    "RETURNS_FALSE",
    "RETURNS_TWO",
    "MOVES_AND_RETURNS_FALSE",
    "LIES",
    "MOVES_HALF",
    "MOVES_DOUBLE",
    "REVERT_BOMB",
    "REVERTS_AS_PROBE",
  ] as const;

  // Paid must mean that exactly the amount moved, and every other event that nothing did, even if
  // the token lies.
  it.each<[string, string]>([
    ["HONEST", "Paid"],
    ["NEEDS_GAS", "Paid"],
    ["RETURNS_NOTHING", "Paid"],
    ["RETURN_BOMB", "Paid"],
    ...MISBEHAVIOURS.map((mode): [string, string] => [mode, `Skipped:${REASON.refused}`]),
    ["BALANCE_REVERTS", `Skipped:${REASON.short}`],
    ["BALANCE_BURNS_GAS", `Skipped:${REASON.short}`],
  ])("a token that %s ends as %s and the payments around it are paid", async (mode, outcome) => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(mode);
    const payment = world.inUsdc(1_000n, { token: token.address });
    const [before, after] = [world.inUsdc(1n), world.inUsdc(2n)];
    expect(await world.pay(before, payment, after)).toEqual(["Paid", outcome, "Paid"]);
    expect(await chain.read(token, "trueBalanceOf", [payment.to])).toBe(
      outcome === "Paid" ? 1_000n : 0n,
    );
    expect(await chain.read(token, "trueBalanceOf", [world.vault.address])).toBe(
      outcome === "Paid" ? 999_000n : 1_000_000n,
    );
    expect(await world.state(payment)).toBe(outcome === "Paid" ? STATE.paid : STATE.none);
  });

  it.each(MISBEHAVIOURS)("a token that %s for one recipient fails that payment", async (mode) => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(null);
    const [good, bad] = [1_000n, 2_000n].map((amount) =>
      world.inUsdc(amount, { token: token.address }),
    ) as [Payment, Payment];
    await chain.send(admin, token, "setModeFor", [bad.to, await chain.read(token, mode)]);
    expect(await world.pay(bad, good)).toEqual(["Failed", "Paid"]);
    expect(await world.state(bad)).toBe(STATE.failed);
    const held = (of: Address) => chain.read<bigint>(token, "trueBalanceOf", [of]);
    expect([await held(bad.to), await held(good.to)]).toEqual([0n, 1_000n]);
    expect(await held(world.vault.address)).toBe(999_000n);
  });

  it("a blacklisted recipient is Failed alone, with the token's words", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(null);
    const refused = world.inUsdc(5n, { token: token.address });
    await chain.send(admin, token, "setBlacklisted", [refused.to, true]);
    const payments = [world.inUsdc(5n, { token: token.address }), refused, world.inUsdc(5n)];
    const result = await chain.send(payer, world.vault, "pay", await world.batchArgs(payments));
    expect(outcomesOf(result)).toEqual(["Paid", "Failed", "Paid"]);
    const { reason } = result.events[1]?.args ?? {};
    expect(hexToString(reason as Hex)).toBe("Blacklistable: account is blackl");
  });

  it("Failed carries the error's selector when there is no message, and else nothing", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(null);
    const reasonFor = async (mode: string): Promise<Hex> => {
      const payment = world.inUsdc(5n, { token: token.address });
      await chain.send(admin, token, "setModeFor", [payment.to, await chain.read(token, mode)]);
      const args = await world.batchArgs([payment]);
      const { events } = await chain.send(payer, world.vault, "pay", args);
      expect(events.map(({ eventName }) => eventName)).toEqual(["Failed"]);
      return events[0]?.args["reason"] as Hex;
    };
    const selector = toFunctionSelector("Refused()");
    expect(await reasonFor("REVERTS")).toBe(padHex(selector, { dir: "right" }));
    for (const mode of ["BURNS_GAS", "RETURNS_FALSE", "LIES", "MOVES_HALF"]) {
      expect(await reasonFor(mode)).toBe(zeroHash);
    }
  });

  it("payments of a paused token are Skipped, and paid when it works again", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile("REVERTS");
    const payments = [1n, 2n, 3n].map((amount) => world.inUsdc(amount, { token: token.address }));
    const refused = payments.map(() => `Skipped:${REASON.refused}`);
    expect(await world.pay(...payments, world.inUsdc(1n))).toEqual([...refused, "Paid"]);
    expect(await chain.read(world.vault, "states", [payments.map(({ id }) => id)])).toEqual([
      STATE.none,
      STATE.none,
      STATE.none,
    ]);
    await chain.send(admin, token, "setMode", [await chain.read(token, "HONEST")]);
    expect(await world.pay(...payments)).toEqual(["Paid", "Paid", "Paid"]);
  });

  it("payments are Skipped while the token has blacklisted the vault", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(null);
    const payment = world.inUsdc(5n, { token: token.address });
    await chain.send(admin, token, "setBlacklisted", [world.vault.address, true]);
    expect(await world.pay(payment)).toEqual([`Skipped:${REASON.refused}`]);
    await chain.send(admin, token, "setBlacklisted", [world.vault.address, false]);
    expect(await world.pay(payment)).toEqual(["Paid"]);
  });

  it("a batch judges the refusals of four tokens, and leaves the others for the next", async () => {
    const world = await vaultWorld(chain);
    const payments: Payment[] = [];
    for (let index = 0; index < 5; index++) {
      const token = await world.hostile(null);
      const payment = world.inUsdc(5n, { token: token.address });
      await chain.send(admin, token, "setBlacklisted", [payment.to, true]);
      payments.push(payment, world.inUsdc(5n, { token: token.address, to: payment.to }));
    }
    const skipped = `Skipped:${REASON.refused}`;
    expect(await world.pay(...payments)).toEqual([
      ...Array.from({ length: 8 }, () => "Failed"),
      skipped,
      skipped,
    ]);
    expect(await world.pay(...payments.slice(8))).toEqual(["Failed", "Failed"]);
  });

  it("a probe leaves no trace", async () => {
    const world = await vaultWorld(chain, { limit: 100n });
    const token = await world.hostile(null);
    const [refused, tokens] = [someone(), world.outcomes.address];
    const probe = await chain.read<Address>(world.vault, "PROBE");
    await chain.send(admin, token, "setBlacklisted", [refused, true]);
    expect(
      await world.pay(
        world.inUsdc(60n, { token: token.address, to: refused }),
        world.inOutcome(60n, { to: ZERO }),
        world.inOutcome(100n, { token: tokens }),
      ),
    ).toEqual(["Failed", "Failed", "Paid"]);
    expect(await chain.read(token, "trueBalanceOf", [probe])).toBe(0n);
    expect(await world.outcomeOf(probe)).toBe(0n);
    for (const account of [payer, admin]) {
      expect(await chain.revertOf(account, world.vault, "probe", [world.inUsdc(1n)])).toBe(
        "OnlySelf",
      );
    }
  });

  it("a token without code is never paid", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(null);
    await chain.client.setCode({ address: token.address, bytecode: "0x" });
    const payment = world.inUsdc(5n, { token: token.address });
    expect(await world.pay(payment)).toEqual([`Skipped:${REASON.short}`]);
    expect(await world.state(payment)).toBe(STATE.none);
  });

  it.each([
    ["ACCEPTS", "Paid"],
    ["NEEDS_GAS", "Paid"],
    ["REVERTS", "Failed"],
    ["BURNS_GAS", "Failed"],
    ["WRONG_ANSWER", "Failed"],
    ["REVERT_BOMB", "Failed"],
    ["SENDS_BACK", "Failed"],
  ])("an ERC-1155 recipient that %s ends as %s and the others are paid", async (mode, outcome) => {
    const world = await vaultWorld(chain);
    const recipient = await world.recipient(mode);
    const payment = world.inOutcome(30n, { to: recipient.address });
    expect(await world.pay(world.inOutcome(1n), payment, world.inUsdc(1n))).toEqual([
      "Paid",
      outcome,
      "Paid",
    ]);
    expect(await world.outcomeOf(recipient.address)).toBe(outcome === "Paid" ? 30n : 0n);
    expect(await world.outcomeOf(world.vault.address)).toBe(
      1_000_000n - 1n - (outcome === "Paid" ? 30n : 0n),
    );
  });

  it("a recipient that is a payer itself cannot re-enter pay, void or attempt", async () => {
    const world = await vaultWorld(chain);
    const recipient = await world.recipient("ACCEPTS");
    await chain.send(admin, world.vault, "grantRole", [
      await chain.read(world.vault, "PAYER_ROLE"),
      recipient.address,
    ]);
    const other = id32();
    const payment = world.inOutcome(30n, { to: recipient.address });
    const attempts = [
      encodeFunctionData({ abi: world.vault.abi, functionName: "pay", args: [2n, 1n << 60n, []] }),
      encodeFunctionData({ abi: world.vault.abi, functionName: "void", args: [[other]] }),
      encodeFunctionData({ abi: world.vault.abi, functionName: "attempt", args: [payment] }),
    ];
    for (const data of attempts) {
      await chain.send(admin, recipient, "setCall", [world.vault.address, data]);
      expect(await world.pay({ ...payment, id: id32() })).toEqual(["Paid"]);
      expect([
        await chain.read(recipient, "called"),
        await chain.read(recipient, "callSucceeded"),
      ]).toEqual([true, false]);
    }
    // The same call from outside the hook works: it was the guard that refused it, not a role.
    await chain.send(admin, recipient, "execute", [world.vault.address, attempts[1]]);
    expect(await world.state(other)).toBe(STATE.voided);
    expect(await world.outcomeOf(recipient.address)).toBe(90n);
  });

  it("voiding an id from inside its own payment changes nothing", async () => {
    const world = await vaultWorld(chain);
    const recipient = await world.recipient("ACCEPTS");
    await chain.send(admin, world.vault, "grantRole", [
      await chain.read(world.vault, "PAYER_ROLE"),
      recipient.address,
    ]);
    const payment = world.inOutcome(5n, { to: recipient.address });
    const data = encodeFunctionData({
      abi: world.vault.abi,
      functionName: "void",
      args: [[payment.id]],
    });
    await chain.send(admin, recipient, "setCall", [world.vault.address, data]);
    expect(await world.pay(payment)).toEqual(["Paid"]);
    expect(await world.state(payment)).toBe(STATE.paid);
  });

  it("fifty burners cost no more than the formula and leave the batch whole", async () => {
    const world = await vaultWorld(chain);
    const burner = await world.recipient("BURNS_GAS");
    const payments = Array.from({ length: 50 }, (_, index) =>
      world.inOutcome(1n, index % 10 === 0 ? {} : { to: burner.address }),
    );
    const gas = await chain.read<bigint>(world.vault, "payGasLimit", [0n, 50n]);
    const result = await chain.trySend(
      payer,
      world.vault,
      "pay",
      await world.batchArgs(payments),
      gas,
    );
    expect(outcomesOf(result)).toEqual(
      payments.map((_, index) => (index % 10 === 0 ? "Paid" : "Failed")),
    );
  });
}
