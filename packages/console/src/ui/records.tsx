/** How parts of a page, facts and records are shown. */
import { type ReactNode, useState } from "react";
import type { Client, Pages } from "@rfq-custody/client";
import { useConnection } from "../live/live.tsx";
import { useRead } from "../session/session.tsx";

/** A part of a page, with its heading. In an aside it is a card. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="part" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

type FactsProps = {
  facts: Readonly<Record<string, ReactNode>>;
  /** The last one, which stands out. */
  total?: readonly [name: string, value: ReactNode] | undefined;
  inline?: boolean;
};

/** What is known, by name. What is null, undefined or an empty text is left out. */
export function Facts({ facts, total, inline = false }: FactsProps) {
  const shown = Object.entries(facts).filter(([, value]) => (value ?? "") !== "");
  if (total !== undefined) shown.push([...total]);
  if (shown.length === 0) return null;
  return (
    <dl className={inline ? "stats" : ""}>
      {shown.map(([name, value]) => (
        <div key={name} className={name === total?.[0] ? "total" : undefined}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Its title, what it shows of a row, and whether that is a number, which is aligned to the right. */
type Column<Row> = readonly [title: string, cell: (row: Row) => ReactNode, kind?: "number"];

export type TableProps<Row> = {
  caption: string;
  columns: readonly Column<Row>[];
  /** Undefined until they are read. */
  rows: readonly Row[] | undefined;
  rowKey: (row: Row) => string;
  /** Shown instead of a table without rows. It says what to do next. */
  empty: ReactNode;
};

/** A table of records. It is greyed while the connection that keeps it up to date is lost. */
export function Table<Row>({ caption, columns, rows, rowKey, empty }: TableProps<Row>) {
  const connection = useConnection();
  if (rows === undefined) return <p role="status">Loading {caption.toLowerCase()}…</p>;
  if (rows.length === 0) return <p className="empty">{empty}</p>;
  const cells = rows.map((row) => columns.map(([, cell]) => cell(row)));
  // A column in which every cell is empty is left out.
  const shown = columns.flatMap(([title, , kind], index) =>
    cells.some((row) => (row[index] ?? "") !== "") ? [{ title, kind, index }] : [],
  );
  return (
    // Focusable, because a narrow screen scrolls it and a keyboard must be able to.
    <div className="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table className={connection === "live" ? "" : "stale"}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {shown.map(({ title, kind }) => (
              <th key={title} scope="col" className={kind}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, of) => (
            <tr key={rowKey(row)}>
              {shown.map(({ title, kind, index }) => (
                <td key={title} data-title={title} className={kind}>
                  {cells[of]?.[index]}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

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
