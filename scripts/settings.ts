/** `npm run settings [-- TEXT]` lists the settings, as src/platform/config.ts explains them. */
import { readFileSync } from "node:fs";
import type { ZodType } from "zod";
import { Settings } from "../src/platform/config.ts";

const source = readFileSync("src/platform/config.ts", "utf8");
const [, secrets = ""] =
  /^\[secrets\]\nrequired = \[(.+?)\]/ms.exec(readFileSync("wrangler.toml", "utf8")) ?? [];
const wanted = process.argv[2]?.toUpperCase() ?? "";
const FIELD =
  /(?:^ {2}\/\*\*((?:(?!\*\/)[^])*)\*\/\n)?^ {2}(\w+)(?::|,)([^]*?)(?=^ {2}[\w/]|$(?![^]))/gm;

for (const [schema, prefix] of [
  ["Settings", ""],
  ["Chain", "CHAINS: "],
  ["VenueSetting", "VENUES: "],
]) {
  const object = new RegExp(`const ${schema} = z\\.\\w+\\(\\{\n([^]*?)^\\}\\)`, "m");
  const [, fields = ""] = object.exec(source) ?? [];
  for (const [, comment = "", name = "", type = ""] of fields.matchAll(FIELD)) {
    const text = comment.replaceAll(/\s*\n\s*\*?\s*/g, " ").trim();
    const line = `${prefix}${name} (${prefix === "" ? ofSetting(name) : ofField(type)})  ${text}`;
    if (line.toUpperCase().includes(wanted)) console.log(line.trimEnd());
  }
}

function ofSetting(name: string): string {
  if (secrets.includes(`"${name}"`)) return "secret";
  const { [name]: setting } = Settings.shape as Record<string, ZodType>;
  const { success, data } = setting?.safeParse(undefined) ?? { success: false };
  if (!success) return "required";
  const text = (_: string, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value;
  return JSON.stringify(data, text).replaceAll('"', "");
}

function ofField(type: string): string {
  if (/minDeposit/.test(type)) return "1";
  if (/minTrade/.test(type)) return "1_000_000";
  const [, given] = /\.default\(([^)]*)\)/.exec(type) ?? [];
  return given ?? (type.includes(".optional()") ? "optional" : "required");
}
