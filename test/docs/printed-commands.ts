/** The `npm run` commands that documents print, as a shell reads them. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export type Printed = { document: string; text: string; script: string; words: string[] };

/** Of a span or a block of code. What is no command but its form, as `<command>`, is left out. */
export function printedCommands(): Printed[] {
  const documents = execFileSync("git", ["ls-files", "*.md"], { encoding: "utf8" }).split("\n");
  return documents
    .filter((path) => path !== "")
    .flatMap((document) => {
      const source = readFileSync(document, "utf8");
      const spans = source.matchAll(/`(npm run [^`]+)`/g);
      const blocks = source.matchAll(/^ *(?:\w+ \| )?(npm run (?:[^\\\n]|\\\n)+)/gm);
      return [...spans, ...blocks].flatMap(([, found = ""]) => {
        const text = found.replaceAll("\\\n", " ").replaceAll(/\s+/g, " ");
        return /<command>|\[/.test(text) ? [] : [{ document, text, ...wordsOf(text) }];
      });
    });
}

/** Names of things stand for one of them. */
function wordsOf(text: string): { script: string; words: string[] } {
  const filled = text
    .replaceAll("<name>", "staging")
    .replaceAll("<instant>", new Date(Date.now() - 3_600_000).toISOString())
    .replaceAll(/<[a-z_ ]+>|…|\$key|\$\(.*\)/g, "1")
    .replace("npm run -s", "npm run")
    .replaceAll(/ [<>|] .*/g, "");
  const print = `set -- ${filled}\nshift 2; printf '%s\\0' "$@"`;
  const [script = "", ...words] = execFileSync("sh", ["-c", print], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1);
  return { script, words: words.filter((word, at) => at > 0 || word !== "--") };
}
