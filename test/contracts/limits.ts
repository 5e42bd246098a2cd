import { encodeFunctionData } from "viem";
import { expect, it } from "vitest";
import {
  type Chain,
  KIND,
  type Payment,
  REASON,
  outcomesOf,
  someone,
  vaultWorld,
} from "./chain.ts";

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
    for (const kind of [KIND.erc1155Total, KIND.erc20Transaction, KIND.erc1155Transaction]) {
      expect(
        await chain.revertOf(admin, world.vault, "setLimit", [world.usdc.address, kind, 1n, 1n]),
      ).toBe("InvalidAsset");
    }
    expect(
      await chain.revertOf(admin, world.vault, "setLimit", [world.usdc.address, 6, 0n, 1n]),
    ).toBe("InvalidAsset");
    expect(await chain.revertOf(admin, world.vault, "setLimit", [...key, 1n << 96n])).toBe(
      "LimitTooHigh",
    );
    expect(
      await chain.revertOf(admin, world.vault, "setLimit", [someone(), KIND.erc20, 0n, 1n]),
    ).toBe("NotAContract");
  });

  it("a stolen payer key gets no more than the total of a contract, however many ids", async () => {
    const world = await vaultWorld(chain, { limit: 1_000n, rich: 0n, defaultCaps: true });
    const tokenIds = Array.from({ length: 100 }, (_, index) => BigInt(index + 1));
    const amounts = tokenIds.map(() => 1_000n);
    await chain.send(stranger, world.outcomes, "mintBatch", [
      world.vault.address,
      tokenIds,
      amounts,
    ]);
    const thief = someone();
    // Amounts that fit every cap: the thief reads the limits too.
    for (let from = 0; from < 100; from += 50) {
      const batch = tokenIds
        .slice(from, from + 50)
        .map((tokenId) => world.inOutcome(5n, { tokenId, to: thief }));
      await world.pay(...batch);
    }
    for (let tries = 0; tries < 6; tries++) {
      await world.pay(world.inOutcome(250n, { tokenId: 1n, to: thief }));
      await world.pay(world.inOutcome(250n, { tokenId: 2n, to: thief }));
    }
    let stolen = 0n;
    for (const tokenId of tokenIds) stolen += await world.outcomeOf(thief, tokenId);
    expect(stolen).toBeGreaterThanOrEqual(750n);
    // What refilled while the test ran is a few units.
    expect(stolen).toBeLessThanOrEqual(1_010n);
  });

  it("the total of a contract is its default limit until the admin sets it", async () => {
    const world = await vaultWorld(chain, { limit: 86_400n, defaultCaps: true });
    const token = world.outcomes.address;
    await chain.send(stranger, world.outcomes, "mint", [world.vault.address, 8n, 1_000_000n]);
    const limitOf = (kind: number, tokenId = 0n) =>
      chain.read<[bigint, bigint]>(world.vault, "limitOf", [token, kind, tokenId]);
    expect(await limitOf(KIND.erc1155Total)).toEqual([86_400n, 86_400n]);
    // An id with a higher limit of its own does not lift the total.
    await chain.send(admin, world.vault, "setLimit", [token, KIND.erc1155, 8n, 500_000n]);
    await chain.send(admin, world.vault, "setLimit", [
      token,
      KIND.erc1155Transaction,
      0n,
      1_000_000n,
    ]);
    expect(
      await world.pay(
        world.inOutcome(80_000n),
        world.inOutcome(7_000n, { tokenId: 8n }),
        world.inOutcome(6_400n, { tokenId: 8n }),
      ),
    ).toEqual(["Paid", OVER, "Paid"]);
    await chain.pass(12 * HOUR);
    const [, half] = await limitOf(KIND.erc1155Total);
    expect(half).toBeGreaterThanOrEqual(43_200n);
    expect(half).toBeLessThan(43_300n);
    await chain.send(admin, world.vault, "setLimit", [token, KIND.erc1155Total, 0n, 700_000n]);
    expect(await world.pay(world.inOutcome(400_000n, { tokenId: 8n }))).toEqual(["Paid"]);
    await chain.send(admin, world.vault, "setLimit", [token, KIND.erc1155Total, 0n, 0n]);
    expect(await world.pay(world.inOutcome(1n), world.inOutcome(1n, { tokenId: 8n }))).toEqual([
      OVER,
      OVER,
    ]);
  });

  it("ids with limits of their own are not paid before the contract has a total", async () => {
    const world = await vaultWorld(chain, { rich: 0n });
    const tokens = await chain.deploy("LocalOutcomeTokens");
    const payment = world.inOutcome(5n, { token: tokens.address });
    await chain.send(stranger, tokens, "mint", [world.vault.address, 7n, 10n]);
    await chain.send(admin, world.vault, "setLimit", [tokens.address, KIND.erc1155, 7n, 100n]);
    expect(await world.pay(payment)).toEqual([OVER]);
    await chain.send(admin, world.vault, "setLimit", [tokens.address, KIND.erc1155Total, 0n, 20n]);
    expect(await world.pay(payment)).toEqual(["Paid"]);
  });

  it("a transaction pays at most half of a limit until the admin sets its cap", async () => {
    const world = await vaultWorld(chain, { limit: 500n, defaultCaps: true });
    const [tooMuch, second] = [world.inUsdc(251n), world.inUsdc(101n)];
    const failed = world.inUsdc(250n, { to: world.vault.address });
    expect(
      await world.pay(failed, tooMuch, world.inUsdc(150n), second, world.inUsdc(100n)),
    ).toEqual(["Failed", OVER, "Paid", OVER, "Paid"]);
    // The id stays payable: the next transaction starts from zero.
    expect(await world.pay(second)).toEqual(["Paid"]);
    await chain.pass(DAY);
    await chain.send(stranger, world.outcomes, "mint", [world.vault.address, 8n, 1_000n]);
    expect(
      await world.pay(
        world.inOutcome(200n),
        world.inOutcome(51n, { tokenId: 8n }),
        world.inOutcome(50n, { tokenId: 8n }),
        world.inUsdc(250n),
      ),
    ).toEqual(["Paid", OVER, "Paid", "Paid"]);
    for (const [token, kind] of [
      [world.usdc.address, KIND.erc20Transaction],
      [world.outcomes.address, KIND.erc1155Transaction],
    ] as const) {
      expect(await chain.read(world.vault, "limitOf", [token, kind, 0n])).toEqual([250n, 250n]);
      await chain.send(admin, world.vault, "setLimit", [token, kind, 0n, 300n]);
    }
    await chain.pass(DAY);
    expect(await world.pay(tooMuch, world.inUsdc(50n), world.inOutcome(300n))).toEqual([
      "Paid",
      OVER,
      "Paid",
    ]);
    await chain.send(admin, world.vault, "setLimit", [
      world.usdc.address,
      KIND.erc20Transaction,
      0n,
      0n,
    ]);
    expect(await world.pay(world.inUsdc(1n), world.inOutcome(1n))).toEqual([OVER, "Paid"]);
  });

  it("half of a limit of a few units is rounded up", async () => {
    const world = await vaultWorld(chain, { limit: 1n, defaultCaps: true });
    expect(await world.pay(world.inUsdc(1n), world.inUsdc(1n))).toEqual(["Paid", OVER]);
  });

  it("several calls of pay in one transaction share its cap", async () => {
    const world = await vaultWorld(chain, { limit: 500n, defaultCaps: true });
    const contract = await world.recipient("ACCEPTS");
    const role = await chain.read(world.vault, "PAYER_ROLE");
    await chain.send(admin, world.vault, "grantRole", [role, contract.address]);
    const deadline = (await chain.now()) + 3_600n;
    const call = (batchNo: bigint, payment: Payment) =>
      encodeFunctionData({
        abi: world.vault.abi,
        functionName: "pay",
        args: [batchNo, deadline, [payment]],
      });
    const result = await chain.send(stranger, contract, "executeAll", [
      world.vault.address,
      [
        call(1n, world.inUsdc(200n)),
        call(2n, world.inUsdc(51n)),
        call(3n, world.inUsdc(50n)),
        call(4n, world.inOutcome(250n)),
      ],
    ]);
    expect(outcomesOf(result)).toEqual(["Paid", OVER, "Paid", "Paid"]);
  });

  it("paymentLimitOf is what one payment can be, at most and now", async () => {
    const world = await vaultWorld(chain, { limit: 500n, defaultCaps: true });
    const [usdc, outcomes] = [world.usdc.address, world.outcomes.address];
    const read = (token: string, kind: number, tokenId = 0n) =>
      chain.read<[bigint, bigint]>(world.vault, "paymentLimitOf", [token, kind, tokenId]);
    expect(await read(usdc, KIND.erc20)).toEqual([250n, 250n]);
    expect(await read(outcomes, KIND.erc1155, 7n)).toEqual([250n, 250n]);
    await chain.send(admin, world.vault, "setLimit", [outcomes, KIND.erc1155, 7n, 40n]);
    expect(await read(outcomes, KIND.erc1155, 7n)).toEqual([40n, 40n]);
    expect(await world.pay(world.inUsdc(251n), world.inUsdc(250n))).toEqual([OVER, "Paid"]);
    await world.pay(world.inUsdc(240n), world.inOutcome(40n));
    const [maximum, available] = await read(usdc, KIND.erc20);
    expect(maximum).toBe(250n);
    expect(available).toBeGreaterThanOrEqual(10n);
    expect(available).toBeLessThan(20n);
    expect(await read(outcomes, KIND.erc1155, 8n)).toEqual([250n, 250n]);
    await chain.send(admin, world.vault, "setLimit", [outcomes, KIND.erc1155Total, 0n, 100n]);
    expect((await read(outcomes, KIND.erc1155, 8n))[0]).toBe(50n);
    expect(
      await chain.revertOf(stranger, world.vault, "paymentLimitOf", [
        outcomes,
        KIND.erc1155Default,
        0n,
      ]),
    ).toBe("InvalidAsset");
  });

  it("raising the total or a transaction's cap waits for the time lock, set or not", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY, limit: 500n, defaultCaps: true });
    const [usdc, outcomes] = [world.usdc.address, world.outcomes.address];
    for (const [token, kind, cap] of [
      [outcomes, KIND.erc1155Total, 500n],
      [usdc, KIND.erc20Transaction, 250n],
      [outcomes, KIND.erc1155Transaction, 250n],
    ] as const) {
      const key = [token, kind, 0n] as const;
      const set = async (amount: bigint) =>
        (await chain.send(admin, world.vault, "setLimit", [...key, amount])).events.map(
          ({ eventName }) => eventName,
        );
      const capInForce = async () =>
        (await chain.read<[bigint, bigint]>(world.vault, "limitOf", key))[0];
      expect(await set(cap + 1n)).toEqual(["LimitScheduled"]);
      expect(await capInForce()).toBe(cap);
      expect(await set(cap - 1n)).toEqual(["LimitCanceled", "LimitSet"]);
      expect(await capInForce()).toBe(cap - 1n);
      expect(await set(cap)).toEqual(["LimitScheduled"]);
      await chain.pass(DAY);
      await chain.send(admin, world.vault, "applyLimit", key);
      expect(await capInForce()).toBe(cap);
    }
  });

  it("caps set before a token's first rolling limit take effect at once", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY });
    const token = await chain.deploy("LocalUSDC");
    for (const kind of [KIND.erc20Transaction, KIND.erc20]) {
      const { events } = await chain.send(admin, world.vault, "setLimit", [
        token.address,
        kind,
        0n,
        900n,
      ]);
      expect(events.map(({ eventName }) => eventName)).toEqual(["LimitSet"]);
    }
    expect(
      await chain.read(world.vault, "paymentLimitOf", [token.address, KIND.erc20, 0n]),
    ).toEqual([900n, 900n]);
  });
}
