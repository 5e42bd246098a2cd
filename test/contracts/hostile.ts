import { encodeFunctionData } from "viem";
import { expect, it } from "vitest";
import { type Chain, REASON, STATE, id32, outcomesOf, vaultWorld } from "./chain.ts";

export function hostileTests(chain: Chain): void {
  const { payer, admin } = chain;

  // Whatever the token says, Failed must mean that nothing moved, and Paid that exactly the amount did.
  it.each([
    ["HONEST", "Paid"],
    ["NEEDS_GAS", "Paid"],
    ["RETURNS_NOTHING", "Paid"],
    ["RETURN_BOMB", "Paid"],
    ["REVERTS", "Failed"],
    ["BURNS_GAS", "Failed"],
    ["RETURNS_FALSE", "Failed"],
    ["RETURNS_TWO", "Failed"],
    ["MOVES_AND_RETURNS_FALSE", "Failed"],
    ["LIES", "Failed"],
    ["MOVES_HALF", "Failed"],
    ["MOVES_DOUBLE", "Failed"],
    ["REVERT_BOMB", "Failed"],
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
    expect(await world.state(payment)).toBe(
      outcome === "Paid" ? STATE.paid : outcome === "Failed" ? STATE.failed : STATE.none,
    );
  });

  it("a blacklisted recipient is Failed alone", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile(null);
    const refused = world.inUsdc(5n, { token: token.address });
    await chain.send(admin, token, "setBlacklisted", [refused.to, true]);
    expect(
      await world.pay(world.inUsdc(5n, { token: token.address }), refused, world.inUsdc(5n)),
    ).toEqual(["Paid", "Failed", "Paid"]);
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
