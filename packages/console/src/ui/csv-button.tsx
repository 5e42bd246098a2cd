import type { CallOptions, Client, Pages } from "@rfq-custody/client";
import { useEffect, useRef, useState } from "react";
import { csvFile, csvLine } from "../csv.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "./form.tsx";

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
};

/** Reads all pages and saves them as a file, or nothing if a page fails or the user leaves. */
export function CsvButton<Row>({ file, columns, read }: CsvButtonProps<Row>) {
  const client = useClient();
  const [rows, setRows] = useState<number | null>(null);
  const leaving = useRef<AbortController>(undefined);
  useEffect(() => () => leaving.current?.abort(), []);
  const download = async () => {
    const { signal } = (leaving.current = new AbortController());
    const lines = [csvLine(Object.keys(columns))];
    const progress = () => setRows(lines.length - 1);
    const timer = setInterval(progress, PATIENCE_MS);
    try {
      for await (const row of read(client, { limit: LONGEST }, { signal })) {
        if (lines.length > MOST_ROWS)
          throw new Error(`There are more than ${MOST_ROWS} rows. Choose fewer by the filters.`);
        lines.push(csvLine(Object.values(columns).map((cell) => cell(row))));
      }
    } finally {
      clearInterval(timer);
      setRows(null);
    }
    save(file, lines);
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
