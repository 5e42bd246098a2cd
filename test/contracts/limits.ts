import { expect, it } from "vitest";
import { type Chain, KIND, REASON, someone, vaultWorld } from "./chain.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
const OVER = `Skipped:${REASON.overLimit}`;

export function limitTests(chain: Chain): void {
  const { admin, stranger } = chain;

  it("a token without a limit cannot be paid", async () => {
    const world = await vaultWorld(chain);
    const token = await chain.deploy("LocalUSDC");
    await chain.send(admin, token, "mint", [world.vault.address, 100n]);
    const payment = world.inUsdc(1n, { token: token.address });
    expect(await world.pay(payment)).toEqual([OVER]);
    await chain.send(admin, world.vault, "setLimit", [token.address, KIND.erc20, 0n, 1n]);
    expect(await world.pay(payment)).toEqual(["Paid"]);
  });

  it("a limit counts what was Paid only, within a batch too, and its id stays payable", async () => {
    const world = await vaultWorld(chain, { limit: 1_000n });
    const over = world.inUsdc(401n);
    const failed = world.inUsdc(900n, { to: world.vault.address });
    expect(
      await world.pay(failed, world.inUsdc(600n), over, world.inUsdc(400n), world.inUsdc(1n)),
    ).toEqual(["Failed", "Paid", OVER, "Paid", OVER]);
    await chain.pass(DAY);
    expect(await world.pay(over)).toEqual(["Paid"]);
  });

  it("a limit refills evenly: half of it after twelve hours, never more than all of it", async () => {
    const world = await vaultWorld(chain, { limit: 86_400n });
    const available = async () =>
      (
        await chain.read<[bigint, bigint]>(world.vault, "limitOf", [
          world.usdc.address,
          KIND.erc20,
          0n,
        ])
      )[1];
    await world.pay(world.inUsdc(86_400n));
    await chain.pass(12 * HOUR);
    const half = await available();
    expect(half).toBeGreaterThanOrEqual(43_200n);
    expect(half).toBeLessThan(43_300n);
    expect(await world.pay(world.inUsdc(half + 200n), world.inUsdc(half))).toEqual([OVER, "Paid"]);
    await chain.pass(3 * DAY);
    expect(await available()).toBe(86_400n);
  });

  it("a day and a refill never let out more than twice the limit", async () => {
    const world = await vaultWorld(chain, { limit: 86_400n, rich: 1_000_000n });
    const start = await chain.now();
    let paid = 0n;
    while ((await chain.now()) < start + BigInt(DAY)) {
      const [, available] = await chain.read<[bigint, bigint]>(world.vault, "limitOf", [
        world.usdc.address,
        KIND.erc20,
        0n,
      ]);
      if (available > 0n && (await world.pay(world.inUsdc(available)))[0] === "Paid")
        paid += available;
      await chain.pass(6 * HOUR);
    }
    expect(paid).toBeGreaterThan(86_400n);
    expect(paid).toBeLessThanOrEqual(2n * 86_400n);
  });

  it("unseen ERC-1155 ids share the contract's default, each with a bucket of its own, until they get their own limit", async () => {
    const world = await vaultWorld(chain, { limit: 100n });
    await chain.send(stranger, world.outcomes, "mint", [world.vault.address, 8n, 1_000n]);
    expect(
      await world.pay(
        world.inOutcome(101n),
        world.inOutcome(100n),
        world.inOutcome(1n),
        world.inOutcome(100n, { tokenId: 8n }),
      ),
    ).toEqual([OVER, "Paid", OVER, "Paid"]);
    await chain.send(admin, world.vault, "setLimit", [
      world.outcomes.address,
      KIND.erc1155,
      8n,
      500n,
    ]);
    expect(await world.pay(world.inOutcome(400n, { tokenId: 8n }), world.inOutcome(1n))).toEqual([
      "Paid",
      OVER,
    ]);
    // The default may change; what was set for one id stays.
    await chain.send(admin, world.vault, "setLimit", [
      world.outcomes.address,
      KIND.erc1155Default,
      0n,
      0n,
    ]);
    expect(
      await chain.read(world.vault, "limitOf", [world.outcomes.address, KIND.erc1155, 8n]),
    ).toMatchObject([500n, expect.any(BigInt)]);
    expect(
      await chain.read(world.vault, "limitOf", [world.outcomes.address, KIND.erc1155, 9n]),
    ).toEqual([0n, 0n]);
  });

  it("lowering a limit keeps what was used of it", async () => {
    const world = await vaultWorld(chain, { limit: 1_000_000n });
    await world.pay(world.inUsdc(900_000n));
    await chain.send(admin, world.vault, "setLimit", [
      world.usdc.address,
      KIND.erc20,
      0n,
      500_000n,
    ]);
    expect(await world.pay(world.inUsdc(1n))).toEqual([OVER]);
    await chain.send(admin, world.vault, "setLimit", [
      world.usdc.address,
      KIND.erc20,
      0n,
      1_000_000n,
    ]);
    expect(await world.pay(world.inUsdc(200_000n), world.inUsdc(90_000n))).toEqual([OVER, "Paid"]);
  });

  it("amounts at the bounds are over the limit, not over the arithmetic", async () => {
    const world = await vaultWorld(chain, { limit: (1n << 96n) - 1n });
    const max = (1n << 256n) - 1n;
    expect(
      await world.pay(
        world.inUsdc(max),
        world.inOutcome(max),
        world.inUsdc(1n << 96n),
        world.inUsdc(1n),
      ),
    ).toEqual([OVER, OVER, OVER, "Paid"]);
    expect(await world.pay(world.inUsdc((1n << 96n) - 1n))).toEqual([OVER]);
  });

  it("raising waits for the time lock, lowering does not and calls a raise off", async () => {
    const world = await vaultWorld(chain, { timelockSecs: 2 * DAY, limit: 100n });
    const key = [world.usdc.address, KIND.erc20, 0n] as const;
    const cap = async () => (await chain.read<[bigint, bigint]>(world.vault, "limitOf", key))[0];
    const scheduled = await chain.send(admin, world.vault, "setLimit", [...key, 200n]);
    expect(scheduled.events.map(({ eventName }) => eventName)).toEqual(["LimitScheduled"]);
    expect(await chain.read(world.vault, "pendingLimitOf", key)).toEqual([
      200n,
      scheduled.events[0]?.args["executableAt"],
    ]);
    expect(await cap()).toBe(100n);
    expect(await chain.revertOf(admin, world.vault, "applyLimit", key)).toBe("TooEarly");
    await chain.pass(2 * DAY);
    expect(
      (await chain.send(admin, world.vault, "applyLimit", key)).events.map(
        ({ eventName }) => eventName,
      ),
    ).toEqual(["LimitSet"]);
    expect(await cap()).toBe(200n);
    expect(await chain.revertOf(admin, world.vault, "applyLimit", key)).toBe("NothingScheduled");

    await chain.send(admin, world.vault, "setLimit", [...key, 300n]);
    const lowered = await chain.send(admin, world.vault, "setLimit", [...key, 50n]);
    expect(lowered.events.map(({ eventName }) => eventName)).toEqual(["LimitCanceled", "LimitSet"]);
    await chain.pass(3 * DAY);
    expect(await chain.revertOf(admin, world.vault, "applyLimit", key)).toBe("NothingScheduled");
    expect(await cap()).toBe(50n);
  });

  it("a scheduled raise can be cancelled and does not stay open for ever", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY, limit: 100n });
    const key = [world.usdc.address, KIND.erc20, 0n] as const;
    await chain.send(admin, world.vault, "setLimit", [...key, 200n]);
    expect(
      (await chain.send(admin, world.vault, "cancelLimit", key)).events.map(
        ({ eventName }) => eventName,
      ),
    ).toEqual(["LimitCanceled"]);
    expect(await chain.revertOf(admin, world.vault, "cancelLimit", key)).toBe("NothingScheduled");
    await chain.send(admin, world.vault, "setLimit", [...key, 200n]);
    await chain.pass(16 * DAY);
    expect(await chain.revertOf(admin, world.vault, "applyLimit", key)).toBe("TooLate");
  });

  it("giving one ERC-1155 id a limit above the default is a raise too", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY, limit: 100n });
    const result = await chain.send(admin, world.vault, "setLimit", [
      world.outcomes.address,
      KIND.erc1155,
      77n,
      101n,
    ]);
    expect(result.events.map(({ eventName }) => eventName)).toEqual(["LimitScheduled"]);
  });

  it("limits are the admin's alone and refuse what makes no sense", async () => {
    const world = await vaultWorld(chain);
    const key = [world.usdc.address, KIND.erc20, 0n] as const;
    for (const account of [stranger, chain.payer, chain.pauser]) {
      expect(await chain.revertOf(account, world.vault, "setLimit", [...key, 1n])).toBe(
        "AccessControlUnauthorizedAccount",
      );
      expect(await chain.revertOf(account, world.vault, "applyLimit", key)).toBe(
        "AccessControlUnauthorizedAccount",
      );
      expect(await chain.revertOf(account, world.vault, "cancelLimit", key)).toBe(
        "AccessControlUnauthorizedAccount",
      );
    }
    expect(
      await chain.revertOf(admin, world.vault, "setLimit", [
        world.usdc.address,
        KIND.erc20,
        1n,
        1n,
      ]),
    ).toBe("InvalidAsset");
    expect(
      await chain.revertOf(admin, world.vault, "setLimit", [
        world.usdc.address,
        KIND.erc1155Default,
        1n,
        1n,
      ]),
    ).toBe("InvalidAsset");
    expect(
      await chain.revertOf(admin, world.vault, "setLimit", [world.usdc.address, 3, 0n, 1n]),
    ).toBe("InvalidAsset");
    expect(await chain.revertOf(admin, world.vault, "setLimit", [...key, 1n << 96n])).toBe(
      "LimitTooHigh",
    );
    expect(
      await chain.revertOf(admin, world.vault, "setLimit", [someone(), KIND.erc20, 0n, 1n]),
    ).toBe("NotAContract");
  });
}
