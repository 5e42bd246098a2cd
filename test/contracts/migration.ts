import { expect, it } from "vitest";
import { type Chain, KIND, REASON, STATE, id32, someone, vaultWorld } from "./chain.ts";

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

  it("everything moves to the announced successor only: paused, after the time lock, by the admin", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY, rich: 500n });
    const next = await vaultWorld(chain, { predecessor: world.vault.address, rich: 0n });
    const assets = [
      { kind: KIND.erc20, token: world.usdc.address, tokenId: 0n },
      { kind: KIND.erc1155, token: world.outcomes.address, tokenId: 7n },
      { kind: KIND.erc1155, token: world.outcomes.address, tokenId: 8n },
    ];
    const migrate = () => chain.revertOf(admin, world.vault, "migrate", [assets]);
    expect(await migrate()).toBe("ExpectedPause");
    await chain.send(pauser, world.vault, "pause");
    expect(await migrate()).toBe("NothingScheduled");
    expect(
      (await chain.send(admin, world.vault, "scheduleMigration", [next.vault.address])).events.map(
        ({ eventName }) => eventName,
      ),
    ).toEqual(["MigrationScheduled"]);
    expect(await migrate()).toBe("TooEarly");
    await chain.pass(DAY);
    expect(await chain.revertOf(stranger, world.vault, "migrate", [assets])).toBe(UNAUTHORIZED);
    const result = await chain.send(admin, world.vault, "migrate", [assets]);
    expect(result.events.map(({ eventName, args }) => [eventName, args["amount"]])).toEqual([
      ["Migrated", 500n],
      ["Migrated", 500n],
    ]);
    expect([
      await world.usdcOf(world.vault.address),
      await world.usdcOf(next.vault.address),
    ]).toEqual([0n, 500n]);
    expect([
      await world.outcomeOf(world.vault.address),
      await world.outcomeOf(next.vault.address),
    ]).toEqual([0n, 500n]);
  });

  it("a migration can be cancelled, is replaced by the next, and does not stay open for ever", async () => {
    const world = await vaultWorld(chain, { timelockSecs: DAY });
    const names = async (functionName: string, args: unknown[] = []) =>
      (await chain.send(admin, world.vault, functionName, args)).events.map(
        ({ eventName }) => eventName,
      );
    await names("scheduleMigration", [world.vault.address]);
    expect(await names("scheduleMigration", [world.usdc.address])).toEqual([
      "MigrationCanceled",
      "MigrationScheduled",
    ]);
    expect(await names("cancelMigration")).toEqual(["MigrationCanceled"]);
    expect(await chain.revertOf(admin, world.vault, "cancelMigration")).toBe("NothingScheduled");
    await names("scheduleMigration", [world.usdc.address]);
    await chain.send(pauser, world.vault, "pause");
    await chain.pass(16 * DAY);
    expect(await chain.revertOf(admin, world.vault, "migrate", [[]])).toBe("TooLate");
    for (const account of [stranger, payer, pauser]) {
      expect(
        await chain.revertOf(account, world.vault, "scheduleMigration", [world.usdc.address]),
      ).toBe(UNAUTHORIZED);
      expect(await chain.revertOf(account, world.vault, "cancelMigration")).toBe(UNAUTHORIZED);
    }
    expect(await chain.revertOf(admin, world.vault, "scheduleMigration", [someone()])).toBe(
      "NotAContract",
    );
  });

  it("migrating an asset that does not move reverts as a whole", async () => {
    const world = await vaultWorld(chain);
    await chain.send(admin, world.vault, "scheduleMigration", [
      (await vaultWorld(chain)).vault.address,
    ]);
    await chain.send(pauser, world.vault, "pause");
    const good = { kind: KIND.erc20, token: world.usdc.address, tokenId: 0n };
    for (const mode of ["LIES", "REVERTS", "BALANCE_REVERTS"]) {
      const token = await world.hostile(mode);
      expect(
        await chain.revertOf(admin, world.vault, "migrate", [
          [good, { ...good, token: token.address }],
        ]),
      ).toBe("TransferFailed");
    }
    expect(await chain.revertOf(admin, world.vault, "migrate", [[{ ...good, kind: 2 }]])).toBe(
      "InvalidAsset",
    );
  });

  it("what was paid, failed or voided in a predecessor is never paid by its successor, two generations on", async () => {
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
    for (const world of [second, third]) {
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

  it("a predecessor must be a contract, and the interfaces are told", async () => {
    await expect(chain.deploy("Vault", [0, admin, payer, pauser, 0, someone()])).rejects.toThrow();
    const { vault } = await vaultWorld(chain);
    for (const interfaceId of ["0x01ffc9a7", "0x4e2312e0", "0x7965db0b", "0x31498786"]) {
      expect(await chain.read(vault, "supportsInterface", [interfaceId])).toBe(true);
    }
    expect(await chain.read(vault, "supportsInterface", ["0xffffffff"])).toBe(false);
  });
}
