/** What a wrangler command means: a deployment, this machine, or nobody knows which. */

type Command = { refused?: string; env?: string; args: string[] };

/** Those that change no account. */
const HARMLESS = new Set(["login", "logout", "whoami", "types", "dev", "docs", "complete"]);
const IS_LOCAL = /^(--local|--dry-run|--help|-h|--version|-v)$/;
/** Without `--remote` these change a file on this machine and say that they are done. */
const LOCAL_BY_DEFAULT = /^(d1 (execute|export|migrations)|r2 object)\b/;

/** Of wrangler's own `--env`, which this project does not use, it makes the deployment's name. */
export function readCommand(given: readonly string[]): Command {
  const args = given.flatMap((word) => (word.startsWith("--env=") ? word.split("=") : [word]));
  const at = args.indexOf("--env");
  const [, env] = at < 0 ? [] : args.splice(at, 2);
  const words = args.join(" ");
  const isLocal = args.some((word) => IS_LOCAL.test(word));
  if (env === undefined) {
    if (isLocal || args.length === 0 || HARMLESS.has(args[0] ?? "")) return { args };
    return { args, refused: `wrangler ${words}: add --env <name>, of deploy.<name>.json` };
  }
  // D1 splits these files, and leaves the first statements of one that it splits wrong.
  if (words.startsWith("d1 migrations apply") && !isLocal)
    return { args, refused: `npm run deploy -- --env ${env} applies migrations` };
  if (LOCAL_BY_DEFAULT.test(words) && !isLocal && !args.includes("--remote")) args.push("--remote");
  return { env, args };
}
