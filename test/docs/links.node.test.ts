/** The documents cite only files and headings that exist, and stay readable in a terminal. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";

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
    expect(local.filter((link) => !leadsSomewhere(document, link))).toEqual([]);
  });

  it("names only paths that exist", () => {
    const paths = [...prose.matchAll(CODE_PATH)].map(([, path = ""]) => path);
    expect(paths.filter((path) => !existsSync(path))).toEqual([]);
    const names = [...prose.matchAll(/`([\w-]+\.ts)`/g)].map(([, name = ""]) => name);
    expect(names.filter((name) => !fileNames.has(name))).toEqual([]);
  });

  it("has lines of at most 100 columns outside of tables", () => {
    const lines = prose.split("\n").filter((line) => !line.startsWith("|"));
    expect(lines.filter((line) => [...line].length > 100)).toEqual([]);
  });
});

/** A path from the root in backticks, unless the text says that the file is new. */
const CODE_PATH =
  /`((?:src|test|scripts|packages|migrations|contracts|docs|examples|bench|\.ci|\.github)\/[\w./-]*)`(?! \(new\))/g;

function leadsSomewhere(document: string, link: string): boolean {
  const [file = "", heading] = link.split("#");
  const target = file === "" ? document : join(dirname(document), file);
  if (!existsSync(target)) return false;
  if (heading === undefined || statSync(target).isDirectory()) return true;
  return headingsOf(readFileSync(target, "utf8")).includes(heading);
}

/** Anchors as forges make them: lower case, no punctuation, spaces as hyphens. */
function headingsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}
