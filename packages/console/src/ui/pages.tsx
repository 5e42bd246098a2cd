/** A list that is read page by page. The cursors of earlier pages are kept for the way back. */
import type { Client, Pages } from "@rfq-custody/client";
import { useState } from "react";
import { useRead } from "../session/use-service.ts";
import { Table, type TableProps } from "./table.tsx";

type PagedTableProps<Row> = Omit<TableProps<Row>, "rows"> & {
  queryKey: readonly string[];
  read: (client: Client, position: { last_cursor?: string }) => Pages<Row>;
};

/** Give it its filter as `key`, so that it starts again at the first page. */
export function PagedTable<Row>({ queryKey, read, empty, ...table }: PagedTableProps<Row>) {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const cursor = cursors.at(-1);
  const page = useRead([...queryKey, cursor], (client) =>
    read(client, cursor === undefined ? {} : { last_cursor: cursor }).page(),
  );
  const next = page?.next_cursor ?? null;
  // A page with filters may be empty although older rows match.
  const nothing = next === null ? empty : "Nothing here matches. Press Older to search further.";
  return (
    <>
      <Table {...table} rows={page?.items} empty={nothing} />
      <p className="chips">
        {cursor === undefined ? null : (
          <button type="button" onClick={() => setCursors(cursors.slice(0, -1))}>
            Newer
          </button>
        )}
        {next === null ? null : (
          <button type="button" onClick={() => setCursors([...cursors, next])}>
            Older
          </button>
        )}
      </p>
    </>
  );
}
