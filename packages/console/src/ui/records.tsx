/** How parts of a page, facts and records are shown. */
import { type ReactNode, useState } from "react";
import type { Client, Pages } from "@rfq-custody/client";
import { useIsStale } from "../live/connection.ts";
import { useRead } from "../session/session.tsx";
import { Loading } from "./place.tsx";

type PartProps = { title: string; aside?: ReactNode; children: ReactNode };

/** A part of a page, with its heading. In an aside it is a card. */
export function Part({ title, aside, children }: PartProps) {
  return (
    <section className="part" aria-label={title}>
      <div className="between">
        <h2>{title}</h2>
        {aside}
      </div>
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

/** What is known, by name. What is null, undefined, false or an empty text is left out. */
export function Facts({ facts, total, inline = false }: FactsProps) {
  const shown = Object.entries(facts).filter(
    ([, value]) => value !== false && (value ?? "") !== "",
  );
  if (total !== undefined) shown.push([...total]);
  if (shown.length === 0) return null;
  return (
    <dl className={inline ? "stats" : "facts"}>
      {shown.map(([name, value]) => (
        <div key={name} className={name === total?.[0] ? "total" : undefined}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Its title, what it shows of a row, and whether that is aligned to the right: numbers, buttons. */
type Column<Row> = readonly [
  title: string,
  cell: (row: Row) => ReactNode,
  kind?: "number" | "actions",
];

export type TableProps<Row> = {
  caption: string;
  columns: readonly Column<Row>[];
  /** Undefined until they are read. */
  rows: readonly Row[] | undefined;
  rowKey: (row: Row) => string;
  /** Of which no more is read than these rows. */
  isCut?: boolean;
  /** Shown instead of a table without rows. It says what to do next. */
  empty: ReactNode;
};

/** A table of records. It is greyed while the connection that keeps it up to date is lost. */
export function Table<Row>({ caption, columns, rows, rowKey, empty, isCut }: TableProps<Row>) {
  const isStale = useIsStale();
  if (rows === undefined) return <Loading what={caption} rows={4} />;
  if (rows.length === 0) return <p className="empty">{empty}</p>;
  const cells = rows.map((row) => columns.map(([, cell]) => cell(row)));
  // A column in which every cell is empty is left out.
  const shown = columns.flatMap(([title, , kind], index) =>
    cells.some((row) => (row[index] ?? "") !== "") ? [{ title, kind, index }] : [],
  );
  return (
    // Focusable, because a narrow screen scrolls it and a keyboard must be able to.
    <div className="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table className={isStale ? "stale" : ""}>
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
                <td key={title} data-title={title} className={index === 0 ? "lead" : kind}>
                  {cells[of]?.[index]}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {isCut === true ? <p className="muted">Only these {rows.length} are shown.</p> : null}
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
