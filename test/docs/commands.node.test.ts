/** Every command that a document, an alert or the code prints is one that works as printed. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readCommand } from "../../scripts/deploy/wrangler-command.ts";
import { commandOf, parseCommand } from "../../scripts/operator/commands.ts";
import { ALERTS, alertTermsOf } from "../../src/platform/alert-kinds.ts";
import { commandText } from "../../src/platform/command-text.ts";
import { printedCommands } from "./printed-commands.ts";

const commands = printedCommands();
const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
  scripts: Record<string, string>;
};
/** Documents about deployments, whose commands must not mean a local stack. */
const OF_DEPLOYMENTS = new Set(["docs/deploy.md", "SECURITY.md"]);

it("documents print commands", () => expect(commands.length).toBeGreaterThan(80));

describe.each(commands)("$document: $text", ({ document, script, words }) => {
  it("is a command with these arguments", () => {
    expect(Object.keys(scripts)).toContain(script);
    if (script === "operator") {
      const parsed = parseCommand(words);
      if (OF_DEPLOYMENTS.has(document) && words[0] !== "key")
        expect(parsed).toMatchObject({ env: expect.stringMatching(/^(staging|production)$/) });
    } else if (script === "wrangler" && words.length > 0)
      expect(readCommand(words)).not.toHaveProperty("refused");
    else {
      const [, file] = /^node (\S+)/.exec(scripts[script] ?? "") ?? [];
      const source = file === undefined ? "" : readFileSync(file, "utf8");
      const flags = words.filter((word) => word.startsWith("--"));
      if (file !== undefined) expect(flags.filter((flag) => !source.includes(flag))).toEqual([]);
    }
  });
});

it("commands within sentences have the flags that they are given", () => {
  const documents = [...new Set(commands.map(({ document }) => document))];
  const unknown = documents.flatMap((document) =>
    spansOf(document).flatMap((span) => {
      const command = commandOf(span.split(" "));
      const known = [...(command?.flags ?? []), ...(command?.user ?? [])].map(({ name }) => name);
      const given = [...span.matchAll(/ --([\w-]+)/g)].map(([, name = ""]) => name);
      return given
        .filter((name) => command !== undefined && ![...known, ...OF_ALL].includes(name))
        .map((name) => `${document}: ${span}: --${name}`);
    }),
  );
  expect(unknown).toEqual([]);
});

/** Flags of every command. */
const OF_ALL = ["env", "json", "wide", "csv"];

const spansOf = (document: string) => {
  const text = readFileSync(document, "utf8").replaceAll(/```[^]*?```/g, "");
  return [...text.matchAll(/`([^`]+)`/g)].map(([, span = ""]) => span.replaceAll(/\s+/g, " "));
};

it.each(Object.keys(ALERTS))("the next command of %s names the deployment", (kind) => {
  const words = alertTermsOf(kind)?.next("local") ?? [];
  const [, , , , ...given] = commandText({ DEPLOY_ENV: "acme" }, "operator", ...words).split(" ");
  expect(parseCommand(given)).toMatchObject({ env: "acme" });
});

it("only one function of the service prints a command", () => {
  const files = execFileSync("git", ["grep", "-lE", "npm run|npx ", "--", "src/*.ts"], {
    encoding: "utf8",
  });
  const printing = files
    .trim()
    .split("\n")
    .filter((file) =>
      readFileSync(file, "utf8")
        .split("\n")
        .some((line) => /npm run|npx /.test(line) && !/^\s*(\*|\/)/.test(line)),
    );
  expect(printing).toEqual(["src/platform/command-text.ts"]);
});
