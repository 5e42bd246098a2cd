import { type Address, encodeFunctionData, parseEther } from "viem";
import { expect, it } from "vitest";
import { type Chain, KIND, type Result, ZERO, handOver, someone, vaultWorld } from "./chain.ts";

const DAY = 86_400;

type Rescue = readonly [
  asset: { kind: number; token: Address; tokenId: bigint },
  to: Address,
  amount: bigint,
];

export function rescueTests(chain: Chain): void {
  const { admin, payer, pauser, stranger } = chain;
  const names = ({ events }: Result) => events.map(({ eventName }) => eventName);

  /** A vault that holds 100 of a token and of an ERC-1155 id that it has no limits for. */
  async function strayWorld(timelockSecs = 0) {
    const world = await vaultWorld(chain, { timelockSecs });
    const [token, ids] = [
      await chain.deploy("LocalUSDC"),
      await chain.deploy("LocalOutcomeTokens"),
    ];
    await chain.send(stranger, token, "mint", [world.vault.address, 100n]);
    await chain.send(stranger, ids, "mint", [world.vault.address, 3n, 100n]);
    const rescue = (amount: bigint, to = someone()): Rescue => [
      { kind: KIND.erc20, token: token.address, tokenId: 0n },
      to,
      amount,
    ];
    const rescueId = (amount: bigint, to = someone()): Rescue => [
      { kind: KIND.erc1155, token: ids.address, tokenId: 3n },
      to,
      amount,
    ];
    return { ...world, token, ids, rescue, rescueId };
  }

  it("a token without a limit is sent on by the admin after the time lock, once", async () => {
    const world = await strayWorld(DAY);
    for (const args of [world.rescue(40n), world.rescueId(40n)]) {
      const [asset, to, amount] = args;
      expect(await chain.revertOf(admin, world.vault, "rescue", args)).toBe("NothingScheduled");
      const scheduled = await chain.send(admin, world.vault, "scheduleRescue", args);
      const executableAt = await chain.read(world.vault, "rescueAt", args);
      expect(
        scheduled.events.map(({ eventName, args: reported }) => [eventName, reported]),
      ).toEqual([["RescueScheduled", { ...asset, to, amount, executableAt }]]);
      expect(await chain.revertOf(admin, world.vault, "rescue", args)).toBe("TooEarly");
      await chain.pass(DAY);
      const rescued = await chain.send(admin, world.vault, "rescue", args);
      expect(rescued.events.map(({ eventName, args: reported }) => [eventName, reported])).toEqual([
        ["Rescued", { ...asset, to, amount }],
      ]);
      expect(await chain.revertOf(admin, world.vault, "rescue", args)).toBe("NothingScheduled");
    }
    const held = await chain.read(world.token, "balanceOf", [world.vault.address]);
    expect(held).toBe(60n);
    expect(await chain.read(world.ids, "balanceOf", [world.vault.address, 3n])).toBe(60n);
  });

  it("a rescue moves the announced amount to the announced address only", async () => {
    const world = await strayWorld();
    const [asset, to] = world.rescue(40n);
    await chain.send(admin, world.vault, "scheduleRescue", [asset, to, 40n]);
    for (const other of [
      [asset, to, 41n],
      [asset, someone(), 40n],
      [{ ...asset, token: world.ids.address }, to, 40n],
    ]) {
      expect(await chain.revertOf(admin, world.vault, "rescue", other)).toBe("NothingScheduled");
    }
    await chain.send(admin, world.vault, "rescue", [asset, to, 40n]);
    expect(await chain.read(world.token, "balanceOf", [to])).toBe(40n);
  });

  it("no token that ever had a limit of any kind can be rescued", async () => {
    const world = await strayWorld();
    const to = someone();
    for (const asset of [
      { kind: KIND.erc20, token: world.usdc.address, tokenId: 0n },
      { kind: KIND.erc1155, token: world.usdc.address, tokenId: 0n },
      { kind: KIND.erc1155, token: world.outcomes.address, tokenId: 7n },
      { kind: KIND.erc1155, token: world.outcomes.address, tokenId: 8n },
      { kind: KIND.erc20, token: world.outcomes.address, tokenId: 0n },
    ]) {
      for (const functionName of ["scheduleRescue", "rescue"]) {
        expect(await chain.revertOf(admin, world.vault, functionName, [asset, to, 1n])).toBe(
          "HasLimit",
        );
      }
    }
    for (const [kind, tokenId] of [
      [KIND.erc20, 0n],
      [KIND.erc1155, 3n],
      [KIND.erc1155Default, 0n],
      [KIND.erc1155Total, 0n],
      [KIND.erc20Transaction, 0n],
      [KIND.erc1155Transaction, 0n],
    ] as const) {
      const fresh = await strayWorld();
      const args = kind === KIND.erc20 ? fresh.rescue(1n) : fresh.rescueId(1n);
      const key = [args[0].token, kind, tokenId] as const;
      await chain.send(admin, fresh.vault, "scheduleRescue", args);
      // A limit of nothing is a limit, and one that comes after the announcement counts.
      await chain.send(admin, fresh.vault, "setLimit", [...key, 0n]);
      expect(await chain.revertOf(admin, fresh.vault, "rescue", args)).toBe("HasLimit");
    }
  });

  it("a limit of one id leaves the other ids of its contract rescuable", async () => {
    const world = await strayWorld();
    const [asset, to, amount] = world.rescueId(5n);
    await chain.send(admin, world.vault, "setLimit", [asset.token, KIND.erc1155, 4n, 10n]);
    await chain.send(admin, world.vault, "scheduleRescue", [asset, to, amount]);
    await chain.send(admin, world.vault, "rescue", [asset, to, amount]);
    expect(await chain.read(world.ids, "balanceOf", [to, 3n])).toBe(5n);
  });

  it("only the admin schedules, cancels and rescues; a cancelled or old rescue is void", async () => {
    const world = await strayWorld(DAY);
    const args = world.rescue(40n);
    for (const functionName of ["scheduleRescue", "cancelRescue", "rescue"]) {
      for (const account of [stranger, payer, pauser]) {
        expect(await chain.revertOf(account, world.vault, functionName, args)).toBe(
          "AccessControlUnauthorizedAccount",
        );
      }
    }
    expect(await chain.revertOf(admin, world.vault, "cancelRescue", args)).toBe("NothingScheduled");
    await chain.send(admin, world.vault, "scheduleRescue", args);
    expect(names(await chain.send(admin, world.vault, "cancelRescue", args))).toEqual([
      "RescueCanceled",
    ]);
    await chain.pass(DAY);
    expect(await chain.revertOf(admin, world.vault, "rescue", args)).toBe("NothingScheduled");
    await chain.send(admin, world.vault, "scheduleRescue", args);
    await chain.pass(16 * DAY);
    expect(await chain.revertOf(admin, world.vault, "rescue", args)).toBe("TooLate");
  });

  it("a rescue to nobody or of nothing known is refused", async () => {
    const world = await strayWorld();
    const [asset, to] = world.rescue(1n);
    const revertOf = (...args: unknown[]) =>
      chain.revertOf(admin, world.vault, "scheduleRescue", args);
    expect(await revertOf(asset, ZERO, 1n)).toBe("InvalidRecipient");
    expect(await revertOf(asset, world.vault.address, 1n)).toBe("InvalidRecipient");
    expect(await revertOf({ ...asset, tokenId: 1n }, to, 1n)).toBe("InvalidAsset");
    expect(await revertOf({ ...asset, kind: KIND.erc1155Default }, to, 1n)).toBe("InvalidAsset");
    expect(await revertOf({ ...asset, kind: KIND.native }, to, 1n)).toBe("InvalidAsset");
  });

  it("a rescue that the token refuses reverts and stays scheduled", async () => {
    const world = await strayWorld();
    const args = world.rescue(101n);
    await chain.send(admin, world.vault, "scheduleRescue", args);
    expect(await chain.revertOf(admin, world.vault, "rescue", args)).toBe("TransferFailed");
    await chain.send(stranger, world.token, "mint", [world.vault.address, 1n]);
    await chain.send(admin, world.vault, "rescue", args);
    expect(await chain.read(world.token, "balanceOf", [args[1]])).toBe(101n);
  });

  it("a payer that is rescued to cannot pay from inside the rescue", async () => {
    const world = await strayWorld();
    const recipient = await world.recipient("ACCEPTS");
    const role = await chain.read(world.vault, "PAYER_ROLE");
    await chain.send(admin, world.vault, "grantRole", [role, recipient.address]);
    const data = encodeFunctionData({
      abi: world.vault.abi,
      functionName: "pay",
      args: await world.batchArgs([world.inUsdc(1n)]),
    });
    await chain.send(admin, recipient, "setCall", [world.vault.address, data]);
    const args = world.rescueId(5n, recipient.address);
    await chain.send(admin, world.vault, "scheduleRescue", args);
    await chain.send(admin, world.vault, "rescue", args);
    expect([
      await chain.read(recipient, "called"),
      await chain.read(recipient, "callSucceeded"),
    ]).toEqual([true, false]);
    await chain.send(admin, recipient, "execute", [world.vault.address, data]);
    expect(await chain.read(world.vault, "nextBatchNo")).toBe(2n);
  });

  it("the native coin can be rescued, also while paused and once retired", async () => {
    const world = await strayWorld();
    const next = await vaultWorld(chain, { predecessor: world.vault.address, rich: 0n });
    const to = someone();
    const value = parseEther("2");
    const native = { kind: KIND.native, token: ZERO, tokenId: 0n };
    await chain.client.setBalance({ address: world.vault.address, value: 2n * value });
    await chain.send(pauser, world.vault, "pause");
    await chain.send(admin, world.vault, "scheduleRescue", [native, to, value]);
    await chain.send(admin, world.vault, "rescue", [native, to, value]);
    expect(await chain.client.getBalance({ address: to })).toBe(value);
    await chain.send(admin, world.vault, "unpause");
    await handOver(chain, world.vault, next.vault);
    await chain.send(admin, world.vault, "scheduleRescue", [native, to, value]);
    await chain.send(admin, world.vault, "rescue", [native, to, value]);
    expect(await chain.client.getBalance({ address: to })).toBe(2n * value);
    // Nothing of the kind is ever paid.
    expect(await next.pay(next.inUsdc(1n, { kind: KIND.native, token: ZERO, to }))).toEqual([
      "Skipped:4",
    ]);
  });
}
