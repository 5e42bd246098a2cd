import type { CallOptions, Client, Pages } from "@rfq-custody/client";
import { useEffect, useRef, useState } from "react";
import { csvFile, csvLine } from "../csv.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "./actions.tsx";

/** The most that a page has. */
const LONGEST = 500;
/** The file is made in memory. */
const MOST_ROWS = 100_000;
/** A shorter download shows no progress. */
const PATIENCE_MS = 2_000;

type CsvButtonProps<Row> = {
  file: string;
  /** Titles and exact values. */
  columns: Readonly<Record<string, (row: Row) => string | number | null>>;
  read: (client: Client, page: { limit: number }, options: CallOptions) => Pages<Row>;
  /** Reads what the cells need. */
  before: (rows: readonly Row[]) => Promise<unknown>;
};

/** Reads all pages and saves them as a file, or nothing if a page fails or the user leaves. */
export function CsvButton<Row>({ file, columns, read, before }: CsvButtonProps<Row>) {
  const client = useClient();
  const [rows, setRows] = useState<number | null>(null);
  const leaving = useRef<AbortController>(undefined);
  useEffect(() => () => leaving.current?.abort(), []);
  const download = async () => {
    const { signal } = (leaving.current = new AbortController());
    const found: Row[] = [];
    const progress = () => setRows(found.length);
    const timer = setInterval(progress, PATIENCE_MS);
    try {
      for await (const row of read(client, { limit: LONGEST }, { signal })) {
        if (found.length === MOST_ROWS)
          throw new Error(`There are more than ${MOST_ROWS} rows. Choose fewer by the filters.`);
        found.push(row);
      }
      await before(found);
    } finally {
      clearInterval(timer);
      setRows(null);
    }
    const cells = Object.values(columns);
    const line = (row: Row) => csvLine(cells.map((cell) => cell(row)));
    save(file, [csvLine(Object.keys(columns)), ...found.map(line)]);
  };
  return (
    <>
      <ActionButton label="Download CSV" run={download} />
      <span role="status">{rows === null ? "" : `${rows} rows read…`}</span>
    </>
  );
}

function save(file: string, lines: string[]): void {
  const url = URL.createObjectURL(csvFile(lines));
  const link = document.createElement("a");
  link.href = url;
  link.download = file;
  link.click();
  URL.revokeObjectURL(url);
}
