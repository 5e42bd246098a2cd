import type { Address } from "viem";
import { expect, it } from "vitest";
import {
  type Chain,
  KIND,
  REASON,
  type Result,
  STATE,
  type VaultWorld,
  ZERO,
  handOver,
  id32,
  someone,
  vaultWorld,
} from "./chain.ts";

const DAY = 86_400;
const UNAUTHORIZED = "AccessControlUnauthorizedAccount";

export function migrationTests(chain: Chain): void {
  const { admin, payer, pauser, stranger } = chain;

  it("while paused nothing is paid, ids can still be voided, and the batch number waits", async () => {
    const world = await vaultWorld(chain);
    await chain.send(pauser, world.vault, "pause");
    const payment = world.inUsdc(1n);
    expect(await chain.revertOf(payer, world.vault, "pay", await world.batchArgs([payment]))).toBe(
      "EnforcedPause",
    );
    const other = id32();
    await chain.send(payer, world.vault, "void", [[other]]);
    expect(await world.state(other)).toBe(STATE.voided);
    await chain.send(admin, world.vault, "unpause");
    expect(await world.pay(payment)).toEqual(["Paid"]);
    expect(await chain.read(world.vault, "nextBatchNo")).toBe(2n);
  });

  it("the pauser pauses and the admin unpauses, nobody else and not the other way round", async () => {
    const world = await vaultWorld(chain);
    for (const account of [stranger, payer, admin])
      expect(await chain.revertOf(account, world.vault, "pause")).toBe(UNAUTHORIZED);
    await chain.send(pauser, world.vault, "pause");
    expect(await chain.revertOf(pauser, world.vault, "pause")).toBe("EnforcedPause");
    for (const account of [stranger, payer, pauser])
      expect(await chain.revertOf(account, world.vault, "unpause")).toBe(UNAUTHORIZED);
    await chain.send(admin, world.vault, "unpause");
    expect(await chain.revertOf(admin, world.vault, "unpause")).toBe("ExpectedPause");
  });

  it("roles are given and taken by the admin, and the admin changes only with a delay", async () => {
    const vault = await chain.deploy("Vault", [
      DAY,
      admin,
      payer,
      pauser,
      0,
      "0x0000000000000000000000000000000000000000",
    ]);
    const role = await chain.read(vault, "PAYER_ROLE");
    expect(await chain.revertOf(stranger, vault, "grantRole", [role, stranger])).toBe(UNAUTHORIZED);
    await chain.send(admin, vault, "revokeRole", [role, payer]);
    await chain.send(admin, vault, "grantRole", [role, stranger]);
    expect([
      await chain.read(vault, "hasRole", [role, payer]),
      await chain.read(vault, "hasRole", [role, stranger]),
    ]).toEqual([false, true]);
    await chain.send(admin, vault, "beginDefaultAdminTransfer", [stranger]);
    expect(await chain.revertOf(stranger, vault, "acceptDefaultAdminTransfer")).toBe(
      "AccessControlEnforcedDefaultAdminDelay",
    );
    await chain.pass(DAY + 1);
    await chain.send(stranger, vault, "acceptDefaultAdminTransfer");
    expect(await chain.read(vault, "defaultAdmin")).toBe(stranger);
  });

  const usdcOf = (world: VaultWorld) => ({
    kind: KIND.erc20,
    token: world.usdc.address,
    tokenId: 0n,
  });
  const names = ({ events }: Result) => events.map(({ eventName }) => eventName);

  it("holdings move to the announced successor: paused, after the time lock, by the admin", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY, rich: 500n });
    const next = await vaultWorld(chain, { predecessor: world.vault.address, rich: 0n });
    await chain.client.setBalance({ address: world.vault.address, value: 30n });
    const assets = [
      usdcOf(world),
      { kind: KIND.erc1155, token: world.outcomes.address, tokenId: 7n },
      { kind: KIND.erc1155, token: world.outcomes.address, tokenId: 8n },
      { kind: KIND.native, token: ZERO, tokenId: 0n },
    ];
    const migrate = () => chain.revertOf(admin, world.vault, "migrate", [assets]);
    expect(await migrate()).toBe("ExpectedPause");
    await chain.send(pauser, world.vault, "pause");
    expect(await migrate()).toBe("NothingScheduled");
    const scheduled = await chain.send(admin, world.vault, "scheduleMigration", [
      next.vault.address,
    ]);
    expect(names(scheduled)).toEqual(["MigrationScheduled"]);
    expect(await migrate()).toBe("TooEarly");
    await chain.pass(DAY);
    expect(await chain.revertOf(stranger, world.vault, "migrate", [assets])).toBe(UNAUTHORIZED);
    const result = await chain.send(admin, world.vault, "migrate", [assets]);
    expect(result.events.map(({ eventName, args }) => [eventName, args["amount"]])).toEqual([
      ["Retired", undefined],
      ["Migrated", 500n],
      ["Migrated", 500n],
      ["Migrated", 30n],
    ]);
    const held = async (holder: Address) => [
      await world.usdcOf(holder),
      await world.outcomeOf(holder),
      await chain.client.getBalance({ address: holder }),
    ];
    expect(await held(world.vault.address)).toEqual([0n, 0n, 0n]);
    expect(await held(next.vault.address)).toEqual([500n, 500n, 30n]);
  });

  it("a migration can be cancelled or replaced, and lapses", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY });
    const predecessor = world.vault.address;
    const one = (await vaultWorld(chain, { predecessor, rich: 0n })).vault.address;
    const two = (await vaultWorld(chain, { predecessor, rich: 0n })).vault.address;
    const send = async (functionName: string, args: unknown[] = []) =>
      names(await chain.send(admin, world.vault, functionName, args));
    await send("scheduleMigration", [one]);
    expect(await send("scheduleMigration", [two])).toEqual([
      "MigrationCanceled",
      "MigrationScheduled",
    ]);
    expect(await send("cancelMigration")).toEqual(["MigrationCanceled"]);
    expect(await chain.revertOf(admin, world.vault, "cancelMigration")).toBe("NothingScheduled");
    await send("scheduleMigration", [one]);
    await chain.send(pauser, world.vault, "pause");
    await chain.pass(16 * DAY);
    expect(await chain.revertOf(admin, world.vault, "migrate", [[]])).toBe("TooLate");
    for (const account of [stranger, payer, pauser]) {
      expect(await chain.revertOf(account, world.vault, "scheduleMigration", [one])).toBe(
        UNAUTHORIZED,
      );
      expect(await chain.revertOf(account, world.vault, "cancelMigration")).toBe(UNAUTHORIZED);
    }
  });

  it("a successor must be a vault that names this one as its predecessor", async () => {
    const world = await vaultWorld(chain, { rich: 0n });
    const other = await vaultWorld(chain, { rich: 0n });
    const next = await vaultWorld(chain, { predecessor: other.vault.address, rich: 0n });
    const revertOf = (successor: Address) =>
      chain.revertOf(admin, world.vault, "scheduleMigration", [successor]);
    expect(await revertOf(someone())).toBe("NotAContract");
    expect(await revertOf(other.vault.address)).toBe("NotASuccessor");
    expect(await revertOf(next.vault.address)).toBe("NotASuccessor");
    await expect(
      chain.send(admin, world.vault, "scheduleMigration", [world.usdc.address]),
    ).rejects.toThrow();
  });

  it("migrating an asset that does not move reverts as a whole", async () => {
    const world = await vaultWorld(chain);
    const next = await vaultWorld(chain, { predecessor: world.vault.address, rich: 0n });
    await chain.send(admin, world.vault, "scheduleMigration", [next.vault.address]);
    await chain.send(pauser, world.vault, "pause");
    const good = usdcOf(world);
    for (const mode of ["LIES", "REVERTS", "BALANCE_REVERTS"]) {
      const token = await world.hostile(mode);
      expect(
        await chain.revertOf(admin, world.vault, "migrate", [
          [good, { ...good, token: token.address }],
        ]),
      ).toBe("TransferFailed");
    }
    for (const kind of [KIND.erc1155Default, KIND.native]) {
      expect(await chain.revertOf(admin, world.vault, "migrate", [[{ ...good, kind }]])).toBe(
        "InvalidAsset",
      );
    }
    expect(await chain.read(world.vault, "retired")).toBe(false);
  });

  it("a successor pays and voids nothing before its predecessor has retired for it", async () => {
    const first = await vaultWorld(chain);
    const second = await vaultWorld(chain, { predecessor: first.vault.address });
    const payment = second.inUsdc(1n);
    const pay = async () =>
      chain.revertOf(payer, second.vault, "pay", await second.batchArgs([payment]));
    const voiding = () => chain.revertOf(payer, second.vault, "void", [[payment.id]]);
    expect([await pay(), await voiding()]).toEqual(["PredecessorActive", "PredecessorActive"]);
    await chain.send(admin, first.vault, "scheduleMigration", [second.vault.address]);
    await chain.send(pauser, first.vault, "pause");
    // A paused predecessor can be resumed; only a retired one cannot.
    expect([await pay(), await voiding()]).toEqual(["PredecessorActive", "PredecessorActive"]);
    await chain.send(admin, first.vault, "migrate", [[]]);
    expect(await chain.read(first.vault, "retiredFor")).toBe(second.vault.address);
    expect(await second.pay(payment)).toEqual(["Paid"]);
    await chain.send(payer, second.vault, "void", [[id32()]]);
  });

  it("a retired vault never pays, voids or resumes, and keeps its successor", async () => {
    const world = await vaultWorld(chain, { rich: 100n });
    const predecessor = world.vault.address;
    const next = await vaultWorld(chain, { predecessor, rich: 0n });
    const rival = await vaultWorld(chain, { predecessor, rich: 1_000n });
    expect(await chain.read(world.vault, "retiredFor")).toBe(ZERO);
    expect(names(await handOver(chain, world.vault, next.vault))).toEqual(["Retired"]);
    const revertOf = (from: Address, functionName: string, args: unknown[] = []) =>
      chain.revertOf(from, world.vault, functionName, args);
    expect(await revertOf(admin, "unpause")).toBe("VaultRetired");
    expect(await revertOf(payer, "void", [[id32()]])).toBe("VaultRetired");
    expect(await revertOf(payer, "pay", [...(await world.batchArgs([world.inUsdc(1n)]))])).toBe(
      "EnforcedPause",
    );
    expect(await revertOf(admin, "scheduleMigration", [rival.vault.address])).toBe("VaultRetired");
    expect(await revertOf(admin, "cancelMigration")).toBe("VaultRetired");
    // A second vault with the same predecessor never gets to pay.
    expect(
      await chain.revertOf(payer, rival.vault, "pay", await rival.batchArgs([rival.inUsdc(1n)])),
    ).toBe("PredecessorActive");
    await expect(
      chain.deploy("Vault", [0, admin, payer, pauser, 0, predecessor]),
    ).rejects.toThrow();
  });

  it("what reaches a retired vault moves to its successor at any time", async () => {
    const world = await vaultWorld(chain, { rich: 0n });
    const next = await vaultWorld(chain, { predecessor: world.vault.address, rich: 0n });
    await handOver(chain, world.vault, next.vault);
    await chain.pass(30 * DAY);
    await chain.send(stranger, world.usdc, "mint", [world.vault.address, 5n]);
    expect(names(await chain.send(admin, world.vault, "migrate", [[usdcOf(world)]]))).toEqual([
      "Migrated",
    ]);
    expect(await world.usdcOf(next.vault.address)).toBe(5n);
    expect(await chain.revertOf(stranger, world.vault, "migrate", [[]])).toBe(UNAUTHORIZED);
  });

  it("a vault that has not taken over yet cannot retire", async () => {
    const first = await vaultWorld(chain, { rich: 0n });
    const second = await vaultWorld(chain, { predecessor: first.vault.address, rich: 0n });
    const third = await vaultWorld(chain, { predecessor: second.vault.address, rich: 0n });
    await chain.send(admin, second.vault, "scheduleMigration", [third.vault.address]);
    await chain.send(pauser, second.vault, "pause");
    expect(await chain.revertOf(admin, second.vault, "migrate", [[]])).toBe("PredecessorActive");
    await handOver(chain, first.vault, second.vault);
    await chain.send(admin, second.vault, "migrate", [[]]);
    await chain.send(payer, third.vault, "void", [[id32()]]);
  });

  it("an id that is done in a predecessor is done in its successors", async () => {
    const first = await vaultWorld(chain);
    const [paid, failed, voided] = [
      first.inUsdc(1n),
      first.inUsdc(1n, { to: first.vault.address }),
      first.inUsdc(1n),
    ];
    await first.pay(paid, failed);
    await chain.send(payer, first.vault, "void", [[voided.id]]);
    const second = await vaultWorld(chain, { predecessor: first.vault.address });
    const third = await vaultWorld(chain, { predecessor: second.vault.address });
    await handOver(chain, first.vault, second.vault);
    for (const world of [second, third]) {
      if (world === third) await handOver(chain, second.vault, third.vault);
      const again = [paid, failed, voided].map(({ id }) => world.inUsdc(1n, { id }));
      expect(await world.pay(...again, world.inUsdc(1n))).toEqual([
        ...again.map(() => `Skipped:${REASON.alreadyDone}`),
        "Paid",
      ]);
      expect(await chain.read(world.vault, "states", [[paid.id, failed.id, voided.id]])).toEqual([
        STATE.paid,
        STATE.failed,
        STATE.voided,
      ]);
      const voiding = await chain.send(payer, world.vault, "void", [[paid.id, failed.id]]);
      expect(voiding.events.map(({ eventName, args }) => [eventName, args])).toEqual([
        ["AlreadyDone", { id: paid.id, state: STATE.paid }],
        ["AlreadyDone", { id: failed.id, state: STATE.failed }],
      ]);
    }
  });

  it("a predecessor must be a vault", async () => {
    const { usdc } = await vaultWorld(chain, { rich: 0n });
    for (const predecessor of [someone(), usdc.address]) {
      await expect(
        chain.deploy("Vault", [0, admin, payer, pauser, 0, predecessor]),
      ).rejects.toThrow();
    }
  });

  it("the vault declares its interfaces", async () => {
    const { vault } = await vaultWorld(chain, { rich: 0n });
    for (const interfaceId of ["0x01ffc9a7", "0x4e2312e0", "0x7965db0b", "0x31498786"]) {
      expect(await chain.read(vault, "supportsInterface", [interfaceId])).toBe(true);
    }
    expect(await chain.read(vault, "supportsInterface", ["0xffffffff"])).toBe(false);
  });
}
