import type { ReactNode } from "react";
import { useConnection } from "../live/live.tsx";

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
