/**
 * Gas of paying and sweeping, compared with bare ERC-20 transfers, on a real anvil:
 * `node bench/contracts-gas.ts`. Exits with 1 if 50 payments cost more than 1.3 times as much as 50
 * bare transfers.
 */
import {
  type Chain,
  HUGE,
  KIND,
  deployFactory,
  id32,
  someone,
  startChain,
  vaultWorld,
} from "../test/contracts/chain.ts";
import type { Address } from "viem";

const COUNTS = [1, 10, 50] as const;
const TARGET = 1.3;
type Row = { what: string; count: number; gas: bigint; bare: bigint };

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

/** Returns what sends bare transfers of a token to each recipient, for their gas. */
async function bareToken(chain: Chain) {
  const usdc = await chain.deploy("LocalUSDC");
  await chain.send(chain.admin, usdc, "mint", [chain.payer, HUGE]);
  return async (recipients: readonly Address[]): Promise<bigint> => {
    let total = 0n;
    for (const to of recipients)
      total += (await chain.send(chain.payer, usdc, "transfer", [to, 1_000_001n])).gasUsed;
    return total;
  };
}

/** Pays recipients that hold nothing yet, and then the same recipients again. */
async function payRows(chain: Chain, count: number): Promise<Row[]> {
  const world = await vaultWorld(chain, { rich: 1n << 60n });
  const transfer = await bareToken(chain);
  const recipients = times(count, someone);
  const rows: Row[] = [];
  // The first batch of a vault also pays for creating its counters.
  await world.pay(world.inUsdc(1n), world.inOutcome(1n));
  for (const who of ["new holders", "holders"]) {
    const usdc = recipients.map((to) => world.inUsdc(1_000_001n, { to }));
    const outcome = recipients.map((to) => world.inOutcome(1_000_001n, { to }));
    const bare = await transfer(recipients);
    for (const [token, batch] of Object.entries({ USDC: usdc, "ERC-1155": outcome })) {
      const args = await world.batchArgs(batch);
      const { gasUsed: gas } = await chain.send(chain.payer, world.vault, "pay", args);
      rows.push({ what: `pay ${token}, ${who}`, count, gas, bare });
    }
  }
  return rows;
}

async function sweepRows(chain: Chain, count: number): Promise<Row[]> {
  const world = await vaultWorld(chain);
  const factory = await deployFactory(chain, world.vault);
  const salts = times(count, id32);
  const transfer = await bareToken(chain);
  const bare = await transfer(times(count, () => world.vault.address));
  const rows: Row[] = [];
  for (const when of ["first", "again"]) {
    for (const salt of salts) {
      await chain.send(chain.admin, world.usdc, "mint", [
        await chain.read(factory, "addressOf", [salt]),
        1_000_001n,
      ]);
    }
    const items = salts.map((salt) => ({
      salt,
      token: world.usdc.address,
      kind: KIND.erc20,
      tokenId: 0n,
      minAmount: 1n,
    }));
    const swept = await chain.send(chain.sweeper, factory, "sweep", [items]);
    rows.push({ what: `sweep USDC, ${when}`, count, gas: swept.gasUsed, bare });
  }
  return rows;
}

function print(rows: Row[]): void {
  const line = (cells: string[]) =>
    console.log(
      `${cells[0]!.padEnd(28)}${cells
        .slice(1)
        .map((cell) => cell.padStart(12))
        .join("")}`,
    );
  line(["", "count", "gas", "each", "bare each", "ratio"]);
  for (const { what, count, gas, bare } of rows) {
    const n = BigInt(count);
    line([
      what,
      String(count),
      String(gas),
      String(gas / n),
      String(bare / n),
      (Number(gas) / Number(bare)).toFixed(2),
    ]);
  }
}

const chain = await startChain();
try {
  const rows: Row[] = [];
  for (const count of COUNTS) rows.push(...(await payRows(chain, count)));
  for (const count of COUNTS) rows.push(...(await sweepRows(chain, count)));
  rows.sort((one, other) => one.what.localeCompare(other.what) || one.count - other.count);
  print(rows);
  const over = rows.filter(
    ({ what, count, gas, bare }) =>
      what.startsWith("pay USDC") && count === 50 && Number(gas) > TARGET * Number(bare),
  );
  if (over.length > 0) {
    console.error(`over the target of ${TARGET}: ${over.map(({ what }) => what).join("; ")}`);
    process.exitCode = 1;
  }
} finally {
  await chain.stop();
}
