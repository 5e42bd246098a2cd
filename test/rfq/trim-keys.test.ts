import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, blob, join, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { KEPT } from "../../src/platform/windows.ts";
import { TRIM_ROUND_MINUTES, trimKeys } from "../../src/rfq/idempotency.ts";

const hex = (id: string) => id.replaceAll("-", "");
/** Of the first and of the last key of a part, and of keys in every part. */
const HASHES = ["", "003f", "0040", "7fff", "8000", "ffbf", "ffc0", "ffff"].flatMap((start) =>
  ["0", "f"].map((fill) => start.padEnd(24, fill)),
);
const SPREAD = Array.from({ length: 1_024 }, (_, part) =>
  (part * 64 + 17).toString(16).padStart(4, "0").padEnd(24, "a"),
);

async function insert(hashes: readonly string[], bornAt: number): Promise<void> {
  const id = blob(hex(uuidv7(bornAt)));
  for (let from = 0; from < hashes.length; from += 30) {
    const rows = hashes
      .slice(from, from + 30)
      .map((hash) => sql`(${blob(hash)}, unhex('010203aa'), ${id})`);
    await all(
      env.DB,
      sql`INSERT INTO idempotency_keys (key_hash, terms_hash, record_id) VALUES ${join(rows, ", ")}`,
    );
  }
}

async function stored(): Promise<string[]> {
  const rows = await all<{ hash: string }>(
    env.DB,
    sql`SELECT lower(hex(key_hash)) AS hash FROM idempotency_keys
      WHERE terms_hash = unhex('010203aa') ORDER BY 1`,
  );
  return rows.map(({ hash }) => hash);
}

it("deletes each expired key within one round, and no other", async () => {
  const [expired, live] = [1_000, -60_000].map((ms) => Date.now() - KEPT.idempotencyKeys - ms);
  const kept = [...new Set(HASHES)].map((hash) => `${hash.slice(0, 12)}5${hash.slice(13)}`);
  await insert([...new Set([...HASHES, ...SPREAD])], expired ?? 0);
  await insert(kept, live ?? 0);
  const first = 29_392_031;
  for (let minute = first; minute < first + TRIM_ROUND_MINUTES; minute++)
    await trimKeys(env.DB, minute);
  expect(await stored()).toEqual(kept.toSorted());
});
