/** A command of the operator's tool, to copy into a shell. */
export function commandText(...words: readonly string[]): string {
  return ["npm run operator --", ...words.map(quoted)].join(" ");
}

/** As a POSIX shell reads it. Subjects of alerts come from the database. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
