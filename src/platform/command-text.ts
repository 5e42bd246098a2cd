/** The only place that writes a command for people to copy, because each must name its deployment. */
import type { Config } from "./config.ts";

export type Deployed = Pick<Config, "DEPLOY_ENV">;
type Script = "backup" | "deploy" | "migrations" | "operator" | "smoke" | "wrangler";

/** Returns `npm run operator -- chain status --env staging`, or without `--env` locally. */
export function commandText(
  { DEPLOY_ENV }: Deployed,
  script: Script,
  ...words: readonly string[]
): string {
  // A flag whose value the reader must know stays last.
  const end = words.at(-1)?.startsWith("--") === true ? words.length - 1 : words.length;
  const named = DEPLOY_ENV === "" ? words : words.toSpliced(end, 0, "--env", DEPLOY_ENV);
  return [`npm run ${script} --`, ...named.map(quoted)].join(" ");
}

/** A word as a POSIX shell reads it. Subjects of alerts come from the database. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
