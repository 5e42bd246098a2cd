import type { ReactNode } from "react";
import { useConnection } from "../live/live.tsx";

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ReactNode;
  /** Amounts and prices are aligned to the right. */
  number?: boolean;
};

/** A table of records. It is greyed while the connection that keeps it up to date is lost. */
export function Table<Row>({
  caption,
  columns,
  rows,
  rowKey,
  empty,
}: {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[] | undefined;
  rowKey: (row: Row) => string;
  empty: string;
}) {
  const connection = useConnection();
  if (rows === undefined) return <p role="status">Loading {caption.toLowerCase()}…</p>;
  if (rows.length === 0) return <p className="empty">{empty}</p>;
  return (
    // Focusable, because a narrow screen scrolls it and a keyboard must be able to.
    <div className="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table className={connection === "live" ? "" : "stale"}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, number }) => (
              <th key={title} scope="col" className={number === true ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map(({ title, cell, number }) => (
                <td key={title} data-title={title} className={number === true ? "number" : ""}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
