/** A copy of the checkout, as a fresh clone, and `wrangler dev` in it. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { ROOT } from "../../../scripts/stack/bundle.ts";
import { freePort } from "../../../scripts/stack/ports.ts";
import { descendants, runScriptFile, type Script, untilPrinted } from "./processes.ts";

const WRANGLER = resolve("node_modules/wrangler/bin/wrangler.js");
const QUIET = {
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  // The library in this process wants errors only (scripts/stack/wrangler-library.ts).
  WRANGLER_LOG: "log",
};

export type Clone = {
  dir: string;
  wrangler: (...args: string[]) => Script;
  /** Starts `wrangler dev` and resolves with its URL when it listens. */
  dev: () => Promise<{ url: string; script: Script; stop: () => Promise<void> }>;
  remove: () => void;
};

export function freshClone(): Clone {
  const dir = resolve(`.stack/clone-${process.pid}-${randomBytes(4).toString("hex")}`);
  const list = ["ls-files", "-co", "--exclude-standard", "-z"];
  const files = execFileSync("git", list, { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 24 });
  mkdirSync(dir, { recursive: true });
  for (const file of files.split("\0").filter(Boolean))
    cpSync(join(ROOT, file), join(dir, file), { recursive: true });
  symlinkSync(resolve("node_modules"), join(dir, "node_modules"));
  const wrangler = (...args: string[]) =>
    runScriptFile(WRANGLER, { args: ["--cwd", dir, ...args], env: QUIET });
  return {
    dir,
    wrangler,
    dev: async () => {
      const port = String(await freePort());
      const script = wrangler("dev", "--ip", "127.0.0.1", "--port", port);
      const stop = async () => {
        const started = descendants(script.child.pid ?? 0);
        script.child.kill("SIGTERM");
        await Promise.race([script.exited, new Promise((done) => setTimeout(done, 10_000))]);
        for (const pid of started) kill(pid);
        script.child.kill("SIGKILL");
      };
      try {
        await untilPrinted(script, "Ready on");
      } catch (error) {
        await stop();
        throw error;
      }
      return { url: `http://127.0.0.1:${port}`, script, stop };
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
