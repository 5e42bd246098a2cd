import { expect, it } from "vitest";
import { REASON, STATE, type Chain, ZERO, id32, outcomesOf, someone, vaultWorld } from "./chain.ts";

export function payTests(chain: Chain): void {
  const { payer, stranger } = chain;

  it("a payment moves exactly its amount, is Paid for ever and says so in its event", async () => {
    const world = await vaultWorld(chain);
    const usdc = world.inUsdc(250n);
    const outcome = world.inOutcome(40n);
    const result = await chain.send(
      payer,
      world.vault,
      "pay",
      await world.batchArgs([usdc, outcome]),
    );
    expect(outcomesOf(result)).toEqual(["Paid", "Paid"]);
    expect(result.events[0]?.args).toEqual({
      id: usdc.id,
      batchNo: 1n,
      token: usdc.token,
      tokenId: 0n,
      amount: 250n,
      to: usdc.to,
    });
    expect(result.events[1]?.args).toEqual({
      id: outcome.id,
      batchNo: 1n,
      token: outcome.token,
      tokenId: 7n,
      amount: 40n,
      to: outcome.to,
    });
    expect([await world.state(usdc), await world.state(outcome)]).toEqual([STATE.paid, STATE.paid]);
    expect(await world.usdcOf(usdc.to)).toBe(250n);
    expect(await world.outcomeOf(outcome.to)).toBe(40n);
    expect(await world.usdcOf(world.vault.address)).toBe(1_000_000n - 250n);
  });

  it("an id is paid once: within a batch, across batches, with other terms, after Failed and after Voided", async () => {
    const world = await vaultWorld(chain);
    const payment = world.inUsdc(10n);
    const fails = world.inUsdc(10n, { to: ZERO });
    expect(await world.pay(payment, payment, fails, fails)).toEqual([
      "Paid",
      `Skipped:${REASON.alreadyDone}`,
      "Failed",
      `Skipped:${REASON.alreadyDone}`,
    ]);
    const voided = world.inUsdc(10n);
    await chain.send(payer, world.vault, "void", [[voided.id]]);
    const again = [{ ...payment, amount: 11n, to: someone() }, { ...fails, to: someone() }, voided];
    expect(await world.pay(...again)).toEqual(again.map(() => `Skipped:${REASON.alreadyDone}`));
    expect(await world.usdcOf(world.vault.address)).toBe(1_000_000n - 10n);
    expect(
      await chain.read(world.vault, "states", [[payment.id, fails.id, voided.id, id32()]]),
    ).toEqual([STATE.paid, STATE.failed, STATE.voided, STATE.none]);
  });

  it("batch numbers are strictly sequential and a refused batch uses none up", async () => {
    const world = await vaultWorld(chain);
    const [first, deadline] = await world.batchArgs([]);
    expect(first).toBe(1n);
    for (const wrong of [0n, 2n, (1n << 64n) + 1n]) {
      expect(
        await chain.revertOf(payer, world.vault, "pay", [wrong, deadline, [world.inUsdc(1n)]]),
      ).toBe("WrongBatch");
    }
    await world.pay(world.inUsdc(1n));
    expect(
      await chain.revertOf(payer, world.vault, "pay", [1n, deadline, [world.inUsdc(1n)]]),
    ).toBe("WrongBatch");
    await world.pay(world.inUsdc(1n));
    expect(await chain.read(world.vault, "nextBatchNo")).toBe(3n);
  });

  it("a batch is refused after its deadline, and not at it", async () => {
    const world = await vaultWorld(chain);
    const next = (await chain.now()) + 100n;
    await chain.client.setNextBlockTimestamp({ timestamp: next });
    const atDeadline = await chain.trySend(payer, world.vault, "pay", [
      1n,
      next,
      [world.inUsdc(1n)],
    ]);
    expect(outcomesOf(atDeadline)).toEqual(["Paid"]);
    expect(
      await chain.revertOf(payer, world.vault, "pay", [2n, next - 1n, [world.inUsdc(1n)]]),
    ).toBe("DeadlinePassed");
    expect(
      (await chain.trySend(payer, world.vault, "pay", [2n, next - 1n, [world.inUsdc(1n)]])).ok,
    ).toBe(false);
  });

  it("an empty batch and one of 51 are refused, one of 50 is paid", async () => {
    const world = await vaultWorld(chain);
    const payments = Array.from({ length: 51 }, () => world.inUsdc(1n));
    expect(await chain.revertOf(payer, world.vault, "pay", await world.batchArgs([]))).toBe(
      "BadCount",
    );
    expect(await chain.revertOf(payer, world.vault, "pay", await world.batchArgs(payments))).toBe(
      "BadCount",
    );
    expect(await world.pay(...payments.slice(1))).toEqual(payments.slice(1).map(() => "Paid"));
  });

  it("only a payer pays and voids, and only the vault itself attempts", async () => {
    const world = await vaultWorld(chain);
    const payment = world.inUsdc(1n);
    for (const account of [stranger, chain.admin, chain.pauser]) {
      expect(
        await chain.revertOf(account, world.vault, "pay", await world.batchArgs([payment])),
      ).toBe("AccessControlUnauthorizedAccount");
      expect(await chain.revertOf(account, world.vault, "void", [[payment.id]])).toBe(
        "AccessControlUnauthorizedAccount",
      );
    }
    for (const account of [stranger, payer, chain.admin]) {
      expect(await chain.revertOf(account, world.vault, "attempt", [payment])).toBe("OnlySelf");
    }
  });

  it("when the vault falls short in mid-batch the payment is Skipped, what still fits is paid, and the id stays payable", async () => {
    const world = await vaultWorld(chain, { rich: 100n });
    const tooMuch = world.inUsdc(50n);
    const outcome = world.inOutcome(101n);
    expect(await world.pay(world.inUsdc(60n), tooMuch, world.inUsdc(40n), outcome)).toEqual([
      "Paid",
      `Skipped:${REASON.short}`,
      "Paid",
      `Skipped:${REASON.short}`,
    ]);
    expect([await world.state(tooMuch), await world.state(outcome)]).toEqual([
      STATE.none,
      STATE.none,
    ]);
    await chain.send(stranger, world.usdc, "mint", [world.vault.address, 50n]);
    expect(await world.pay(tooMuch)).toEqual(["Paid"]);
    expect(await world.usdcOf(tooMuch.to)).toBe(50n);
  });

  it("a payment that makes no sense is Skipped and its id can still be paid", async () => {
    const world = await vaultWorld(chain);
    const zero = world.inUsdc(0n);
    const senseless = [
      zero,
      world.inUsdc(1n, { kind: 2 }),
      world.inUsdc(1n, { kind: 255 }),
      world.inUsdc(1n, { tokenId: 1n }),
    ];
    expect(await world.pay(...senseless)).toEqual(senseless.map(() => `Skipped:${REASON.invalid}`));
    expect(await world.pay({ ...zero, amount: 5n })).toEqual(["Paid"]);
  });

  it("a payment to the vault itself moves nothing and so is Failed", async () => {
    const world = await vaultWorld(chain);
    const payments = [
      world.inUsdc(5n, { to: world.vault.address }),
      world.inOutcome(5n, { to: world.vault.address }),
    ];
    expect(await world.pay(...payments)).toEqual(["Failed", "Failed"]);
    expect(await world.usdcOf(world.vault.address)).toBe(1_000_000n);
  });

  it("void ends open ids and reports the outcome of the others", async () => {
    const world = await vaultWorld(chain);
    const [paid, failed] = [world.inUsdc(1n), world.inUsdc(1n, { to: ZERO })];
    await world.pay(paid, failed);
    const open = id32();
    const result = await chain.send(payer, world.vault, "void", [[paid.id, open, failed.id, open]]);
    expect(result.events.map(({ eventName, args }) => [eventName, args])).toEqual([
      ["AlreadyDone", { id: paid.id, state: STATE.paid }],
      ["Voided", { id: open }],
      ["AlreadyDone", { id: failed.id, state: STATE.failed }],
      ["AlreadyDone", { id: open, state: STATE.voided }],
    ]);
    expect(await chain.read(world.vault, "states", [[paid.id, open, failed.id]])).toEqual([
      STATE.paid,
      STATE.voided,
      STATE.failed,
    ]);
    const again = await chain.send(payer, world.vault, "void", [[open]]);
    expect(again.events.map(({ args }) => args)).toEqual([{ id: open, state: STATE.voided }]);
    expect(await chain.revertOf(payer, world.vault, "void", [[]])).toBe("BadCount");
    expect(
      await chain.revertOf(payer, world.vault, "void", [Array.from({ length: 201 }, id32)]),
    ).toBe("BadCount");
  });

  it("a payment replayed from a raced, identical transaction pays nobody twice", async () => {
    const world = await vaultWorld(chain);
    const payment = world.inUsdc(9n);
    const args = await world.batchArgs([payment]);
    await chain.send(payer, world.vault, "pay", args);
    expect((await chain.trySend(payer, world.vault, "pay", args)).ok).toBe(false);
    expect(await world.usdcOf(payment.to)).toBe(9n);
  });
}
