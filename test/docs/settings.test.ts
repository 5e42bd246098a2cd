import { expect, it } from "vitest";
import page from "../../docs/settings.md?raw";
import wrangler from "../../wrangler.toml?raw";
import { Settings } from "../../src/platform/config.ts";

const rows = [...page.matchAll(/^\| `([A-Z_]+)` \| (.+?) \|/gm)].map(
  ([, name, shown]) => [name ?? "", (shown ?? "").replaceAll("`", "")] as const,
);

it("the page lists exactly the settings of the code", () => {
  expect(rows.map(([name]) => name)).toEqual(Object.keys(Settings.shape));
});

it("wrangler.toml requires exactly the secrets", () => {
  const [, required = ""] = /^\[secrets\]\nrequired = \[(.+?)\]/ms.exec(wrangler) ?? [];
  const secrets = rows.flatMap(([name, shown]) => (shown === "secret" ? [name] : []));
  expect([...required.matchAll(/"(\w+)"/g)].map(([, name]) => name)).toEqual(secrets);
});

it.each(rows.filter(([, shown]) => shown !== "required" && shown !== "secret"))(
  "the page states the default of %s",
  (name, shown) => {
    const { [name]: schema } = Settings.shape as Record<string, { parse(value: unknown): unknown }>;
    expect(schema?.parse(undefined)).toEqual(schema?.parse(shown === "empty" ? "" : shown));
  },
);
