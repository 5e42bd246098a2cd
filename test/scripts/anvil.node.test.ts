import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const run = promisify(execFile);
const ANVIL = resolve("scripts/stack/anvil.ts");

const PLATFORMS = [
  { platform: "darwin", arch: "arm64", name: "@foundry-rs/anvil-darwin-arm64" },
  { platform: "darwin", arch: "x64", name: "@foundry-rs/anvil-darwin-amd64" },
  { platform: "linux", arch: "arm64", name: "@foundry-rs/anvil-linux-arm64" },
  { platform: "linux", arch: "x64", name: "@foundry-rs/anvil-linux-amd64" },
] as const;

it.each(PLATFORMS)("npm installs anvil on $platform $arch", ({ name }) => {
  const { optionalDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as {
    optionalDependencies: Record<string, string>;
  };
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as {
    packages: Record<string, { version: string }>;
  };
  expect(packages[`node_modules/${name}`]?.version).toBe(optionalDependencies[name]);
});

const here = `@foundry-rs/anvil-${process.platform}-${process.arch === "x64" ? "amd64" : process.arch}`;

// The binary of this machine is installed, so only the others can be missing.
it.each(PLATFORMS.filter(({ name }) => name !== here))(
  "says which package is missing on $platform $arch",
  async ({ platform, arch, name }) => {
    const code = `
      Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });
      Object.defineProperty(process, "arch", { value: ${JSON.stringify(arch)} });
      const { startAnvil } = await import(${JSON.stringify(ANVIL)});
      await startAnvil().catch((error) => console.log(error.message));`;
    const args = ["--input-type=module", "--eval", code];
    const { stdout } = await run(process.execPath, args, {
      env: { ...process.env, PATH: "" },
    });
    const [first] = stdout.split("\n");
    expect(first).toBe(
      `anvil is missing: ${name} is not installed and no \`anvil\` is on the PATH.`,
    );
  },
);
