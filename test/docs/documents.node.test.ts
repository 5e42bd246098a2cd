/** Checks that the documents cite only existing files and headings and have short lines. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { COMMANDS } from "../../scripts/operator/commands.ts";
import { PROBLEM_CODES } from "../../src/platform/problem.ts";

const files = execFileSync("git", ["ls-files"], { encoding: "utf8" })
  .split("\n")
  .filter(existsSync);
const documents = files.filter((path) => path.endsWith(".md"));
const fileNames = new Set(files.map((path) => basename(path)));

describe.each(documents)("%s", (document) => {
  const text = readFileSync(document, "utf8");
  const prose = text.replaceAll(/^( *)```.*?^\1```/gms, "");

  it("links only to files and headings that exist", () => {
    const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
    const local = links.filter((link) => !/^[a-z]+:/.test(link));
    expect(local.filter((link) => !targetExists(document, link))).toEqual([]);
  });

  it("names only paths that exist", () => {
    const paths = [...prose.matchAll(CODE_PATH)].map(([, path = ""]) => path);
    expect(paths.filter((path) => !existsSync(path))).toEqual([]);
    const names = [...prose.matchAll(/`([\w-]+\.ts)`/g)].map(([, name = ""]) => name);
    expect(names.filter((name) => !fileNames.has(name))).toEqual([]);
  });

  it("has lines of at most 100 columns outside of tables", () => {
    const lines = prose.split("\n").filter((line) => !line.startsWith("|"));
    expect(lines.filter((line) => Array.from(line).length > 100)).toEqual([]);
  });
});

describe("reference documentation", () => {
  const read = (path: string) => readFileSync(path, "utf8");
  const namesIn = (path: string, type: string) => {
    const [, union = ""] = new RegExp(`type ${type} =([^;]*);`).exec(read(path)) ?? [];
    return [...union.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name);
  };

  it("explains every check of the reconciliation", () => {
    const checks = namesIn("src/ledger/difference.ts", "Check");
    expect(checks).toContain("holdings_short");
    const headings = [...read("docs/invariants.md").matchAll(/^### `(\w+)`/gm)];
    expect(headings.map(([, name = ""]) => name).toSorted()).toEqual(checks.toSorted());
  });

  it("explains every alert", () => {
    const alerts = namesIn("src/platform/alert.ts", "AlertKind");
    expect(alerts).toContain("payer_halted");
    const listed = [...read("docs/runbook.md").matchAll(/^\| `(\w+)` \| /gm)].map(
      ([, name]) => name,
    );
    expect(listed).toEqual(expect.arrayContaining(alerts));
  });

  it("lists exactly the existing error codes in the contract", () => {
    const [, section = ""] =
      /^- \*\*400\*\*(.*?)^Some codes/ms.exec(read("docs/contract.md")) ?? [];
    const codes = [...section.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code);
    expect(codes.toSorted()).toEqual([...PROBLEM_CODES].toSorted());
  });

  it("lists the operator's commands in the contract", () => {
    const [, section = ""] = /^## 7\.(.*?)^## 8\./ms.exec(read("docs/contract.md")) ?? [];
    const listed = [...section.matchAll(/`([a-z-]+)(?: ([a-z|-]+))?`/g)].flatMap(
      ([, noun = "", verbs]) => (verbs?.split("|") ?? [""]).map((verb) => `${noun} ${verb}`.trim()),
    );
    expect(listed).toEqual(expect.arrayContaining(COMMANDS.map(({ words }) => words.join(" "))));
  });

  it("names the schema of the data of every stream message", () => {
    const { components } = parse(read("docs/asyncapi.yaml")) as {
      components: { schemas: Record<string, { properties?: { data?: { $ref?: string } } }> };
    };
    const data = Object.entries(components.schemas).flatMap(([name, { properties }]) =>
      properties?.data === undefined ? [] : [{ name, named: "$ref" in properties.data }],
    );
    expect(data.length).toBeGreaterThan(12);
    expect(data.filter(({ named }) => !named)).toEqual([]);
  });

  it("tells operators only commands that exist, and which of them need two", () => {
    const page = read("docs/operators.md");
    const commands = COMMANDS.map(({ words }) => words.join(" "));
    const groups = new Set(commands.map((command) => command.split(" ")[0]));
    const inline = [
      ...page.matchAll(/`(?:npm run operator -- )?([a-z][a-z-]*(?: [a-z-]+)*)[^`]*`/g),
    ];
    const blocks = [...page.matchAll(/^npm run operator -- ([a-z-]+(?: [a-z]+)?)/gm)];
    const named = [...inline, ...blocks]
      .map(([, words = ""]) => words.replace(/ -.*/, ""))
      .filter((words) => groups.has(words.split(" ")[0]));
    expect(named.length).toBeGreaterThan(40);
    const starts = (words: string) =>
      commands.some((command) => words === command || words.startsWith(`${command} `));
    expect(named.filter((words) => !starts(words))).toEqual([]);

    const [, needing = ""] =
      /NEEDS_TWO = new Set\(\[([^\]]*)\]/.exec(read("src/operator/approvals.ts")) ?? [];
    const two = [...needing.matchAll(/"([^"]+)"/g)].map(([, words = ""]) => words);
    const [, listed = ""] = /these orders need a second operator: ([^.]*)\./.exec(page) ?? [];
    expect([...listed.matchAll(/`([^`]+)`/g)].map(([, words = ""]) => words).toSorted()).toEqual(
      two.toSorted(),
    );
    expect(two.length).toBeGreaterThan(5);
  });
});

/** A path from the root in backticks, unless `(new)` follows. */
const CODE_PATH =
  /`((?:src|test|scripts|packages|migrations|contracts|docs|examples|bench|\.ci|\.github)\/[\w./-]*)`(?! \(new\))/g;

function targetExists(document: string, link: string): boolean {
  const [file = "", heading] = link.split("#");
  const target = file === "" ? document : join(dirname(document), file);
  if (!existsSync(target)) return false;
  if (heading === undefined || statSync(target).isDirectory()) return true;
  return headingsOf(readFileSync(target, "utf8")).includes(heading);
}

/** The anchors of a document: lower case, no punctuation, hyphens for spaces. */
function headingsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}
