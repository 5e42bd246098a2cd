/** Lists the caller's deposits, newest first. */
import { and, desc, eq } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import {
  afterCursor,
  fetchCount,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { fields, read } from "../platform/read.ts";
import { readUuid } from "../platform/sql.ts";
import { DEPOSIT, type DepositRow, depositView } from "./records.ts";
import { deposits, type DepositStatus } from "./tables.ts";

const d = alias(deposits, "d");

export async function listDeposits(
  db: D1Database,
  userId: string,
  query: PageQuery<TimeId> & { status?: DepositStatus | undefined },
): Promise<Page<ReturnType<typeof depositView>>> {
  const status = query.status === undefined ? undefined : eq(d.status, query.status);
  const older = afterCursor(query, { at: d.detectedAt, id: d.depositId });
  const rows = await read(db, ({ select }) =>
    select(fields<DepositRow>(DEPOSIT))
      .from(d)
      .where(and(eq(d.userId, userId), status, older))
      .orderBy(desc(d.detectedAt), desc(d.depositId))
      .limit(fetchCount(query)),
  );
  return pageOf(query, rows, depositView, (row) => ({
    at: row.detected_at,
    id: readUuid(row.deposit_id),
  }));
}
