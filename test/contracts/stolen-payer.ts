/**
 * What a thief with the payer's key can do at most, and for how long, as docs/security.md says. The
 * service's operator account is payer of the vault and sweeper of the factory.
 */
import type { Address } from "viem";
import { expect, it } from "vitest";
import {
  type Chain,
  type ContractRef,
  deployFactory,
  id32,
  KIND,
  REASON,
  someone,
  STATE,
  vaultWorld,
} from "./chain.ts";

const DAY = 86_400;
const LIMIT = 86_400n;
const UNAUTHORIZED = "AccessControlUnauthorizedAccount";
const OVER = `Skipped:${REASON.overLimit}`;

export function stolenPayerTests(chain: Chain): void {
  const { admin, payer, pauser } = chain;

  it("a thief takes the day's limit, and no more than twice that in a day", async () => {
    const world = await vaultWorld(chain, { limit: LIMIT, rich: 100n * LIMIT });
    const thief = someone();
    const start = await chain.now();
    let stolen = 0n;
    expect(await world.pay(world.inUsdc(LIMIT + 1n, { to: thief }))).toEqual([OVER]);
    while ((await chain.now()) < start + BigInt(DAY)) {
      const [, left] = await chain.read<[bigint, bigint]>(world.vault, "limitOf", [
        world.usdc.address,
        KIND.erc20,
        0n,
      ]);
      if (left > 0n && (await world.pay(world.inUsdc(left, { to: thief })))[0] === "Paid")
        stolen += left;
      await chain.pass(2 * 3_600);
    }
    expect(stolen).toBeGreaterThanOrEqual(LIMIT);
    expect(stolen).toBeLessThanOrEqual(2n * LIMIT);
    expect(await chain.read(world.usdc, "balanceOf", [thief])).toBe(stolen);
  });

  it("a thief pays no id twice, and can void one, which costs nobody anything", async () => {
    const world = await vaultWorld(chain);
    const paid = world.inUsdc(10n);
    const open = world.inUsdc(10n, { id: id32() });
    expect(await world.pay(paid)).toEqual(["Paid"]);
    expect(await world.pay({ ...paid, to: someone() })).toEqual([`Skipped:${REASON.alreadyDone}`]);
    await chain.send(payer, world.vault, "void", [[open.id]]);
    expect(await world.state(open.id)).toBe(STATE.voided);
    expect(await world.pay(open)).toEqual([`Skipped:${REASON.alreadyDone}`]);
  });

  it("a thief cannot raise limits, take roles, pause, migrate, rescue or turn sweeps", async () => {
    const { vault, usdc } = await vaultWorld(chain);
    const factory = await deployFactory(chain, vault);
    const asset = { kind: KIND.erc20, token: usdc.address, tokenId: 0n };
    const role = await chain.read(vault, "PAYER_ROLE");
    const calls: readonly [ContractRef, string, unknown[]][] = [
      [vault, "setLimit", [usdc.address, KIND.erc20, 0n, 10n ** 12n]],
      [vault, "grantRole", [role, someone()]],
      [vault, "beginDefaultAdminTransfer", [payer]],
      [vault, "pause", []],
      [vault, "unpause", []],
      [vault, "scheduleMigration", [vault.address]],
      [vault, "migrate", [[asset]]],
      [vault, "scheduleRescue", [asset, payer, 1n]],
      [factory, "scheduleVault", [vault.address]],
      [factory, "executeVault", []],
    ];
    for (const [contract, name, args] of calls)
      expect([name, await chain.revertOf(payer, contract, name, args)]).toEqual([
        name,
        UNAUTHORIZED,
      ]);
  });

  it("the theft ends with the pause, and the key with its role", async () => {
    const world = await vaultWorld(chain);
    const attempt = async (to: Address) =>
      chain.revertOf(payer, world.vault, "pay", await world.batchArgs([world.inUsdc(1n, { to })]));
    await chain.send(pauser, world.vault, "pause");
    expect(await attempt(someone())).toBe("EnforcedPause");
    const role = await chain.read(world.vault, "PAYER_ROLE");
    await chain.send(admin, world.vault, "revokeRole", [role, payer]);
    await chain.send(admin, world.vault, "unpause");
    expect(await attempt(someone())).toBe(UNAUTHORIZED);
  });
}
