import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { SEALER_NAME } from "../../src/archive/watch-sealer.ts";
import type { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { FIRST_MEMORY, type SealerMemory } from "../../src/archive/sealer-memory.ts";
import { isSealerHalted, restoreJournal } from "../../src/operator/restore.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { newUser } from "../support/users.ts";

const sealer = env.SEALER.getByName(SEALER_NAME);

async function newestTransfer(): Promise<number> {
  await newUser({ usdc: 1n });
  const [row] = await all<{ id: number }>(
    env.DB,
    sql`SELECT max(transfer_id) AS id FROM transfers`,
  );
  return row?.id ?? 0;
}

const remember = (memory: SealerMemory) =>
  runInDurableObject(sealer, (_sealer: Sealer, { storage }) => storage.put("memory", memory));

it("continues above every transfer that a restored database has lost", async () => {
  expect(await restoreJournal(env, false)).toBeUndefined();
  const lost = (await newestTransfer()) + 1_000;
  await remember({ ...FIRST_MEMORY, epoch: 3, highest: lost });
  expect(await isSealerHalted(env)).toBe(true);
  await sealer.wake();
  expect(await restoreJournal(env, false)).toMatchObject({ epoch: 4 });
  expect(await isSealerHalted(env)).toBe(false);
  // The sealer has not seen what was posted after its last round.
  expect(await newestTransfer()).toBeGreaterThan(lost + 1_000_000);
});

it("continues above what the sealer did not see, if the operator insists", async () => {
  const seq = async () => {
    const [row] = await all<{ seq: number }>(
      env.DB,
      sql`SELECT last_seq AS seq FROM removed_streams`,
    );
    return row?.seq ?? 0;
  };
  const first = await restoreJournal(env, true);
  const [known, seqBefore] = [await newestTransfer(), await seq()];
  await sealer.wake();
  expect(await restoreJournal(env, true)).toMatchObject({ epoch: (first?.epoch ?? 0) + 1 });
  expect(await isSealerHalted(env)).toBe(false);
  // Subscribers who saw lost events get a resync.
  expect(await seq()).toBe(seqBefore + 1_000_000);
  await restoreJournal(env, true);
  expect(await newestTransfer()).toBeGreaterThan(known + 1_000_000);
});
