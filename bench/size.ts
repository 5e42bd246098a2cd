/**
 * The size of D1 and of its tables, measured on a copy of the file: D1 exposes neither pages nor
 * dbstat.
 */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { BenchStack } from "./stack.ts";

export type Sizes = {
  readonly inUse: number;
  readonly vacuumed: number;
  /** Bytes of each table and of each index, by its name, in the vacuumed file. */
  readonly tables: ReadonlyMap<string, number>;
  /** Bytes of each table with its indexes, as they are in the file. */
  readonly whole: ReadonlyMap<string, number>;
};

export function sizesOf(stack: BenchStack): Sizes {
  const folder = mkdtempSync(join(tmpdir(), "bench-copy-"));
  try {
    const file = stack.databaseFile();
    for (const end of ["", "-wal"])
      if (existsSync(file + end)) copyFileSync(file + end, join(folder, `copy.sqlite${end}`));
    const copy = new DatabaseSync(join(folder, "copy.sqlite"));
    const pragma = (name: string) =>
      Number(Object.values(copy.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
    const inUse = (pragma("page_count") - pragma("freelist_count")) * pragma("page_size");
    const read = (text: string) =>
      new Map(
        copy
          .prepare(text)
          .all()
          .map(({ name, bytes }) => [String(name), Number(bytes)]),
      );
    const whole = read(`SELECT coalesce(m.tbl_name, d.name) AS name, sum(d.pgsize) AS bytes
      FROM dbstat d LEFT JOIN sqlite_schema m ON m.name = d.name GROUP BY 1`);
    copy.exec("VACUUM");
    const measured = {
      inUse,
      whole,
      vacuumed: pragma("page_count") * pragma("page_size"),
      tables: read("SELECT name, sum(pgsize) AS bytes FROM dbstat GROUP BY name"),
    };
    copy.close();
    return measured;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
