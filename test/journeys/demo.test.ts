import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { freePort } from "../../scripts/stack/ports.ts";
import { alive, descendants, runScriptFile, untilPrinted } from "../support/node/processes.ts";
import { inRelease } from "../support/depth.ts";
import { until } from "../support/node/stack.ts";

const dir = join(".stack", `test-demo-${process.pid}-${randomBytes(4).toString("hex")}`);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function runDemo(env: Record<string, string> = {}) {
  return runScriptFile("scripts/demo.ts", { env, args: ["--dir", dir] });
}

const ended = (pids: number[]) =>
  until("the children to end", 10_000, async () => (alive(pids).length === 0 ? true : null));

describe("npm run demo", () => {
  it("completes its steps and leaves no process running", async () => {
    const run = runDemo();
    await untilPrinted(run, "the Worker listens on");
    const children = descendants(run.child.pid ?? 0);
    expect(await run.exited, run.output()).toBe(0);
    for (const step of [1, 2, 3, 4, 5, 6, 7, 8, 9])
      expect(run.output()).toMatch(new RegExp(`^ok ${step}  `, "m"));
    expect(run.output()).toMatch(/POST \/rfq\/request TwoWay/);
    expect(run.output()).toMatch(/op: "quote", price: 610000, replaces: /);
    await ended(children);
  });

  it("names a port that is in use and its variable", async () => {
    const server = createServer();
    const port = await new Promise<number>((resolve) =>
      server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
    );
    try {
      for (const variable of ["PORT", "RPC_PORT"]) {
        const run = runDemo({ [variable]: String(port) });
        expect(await run.exited).toBe(1);
        expect(run.output()).toContain(`Port ${port} is taken`);
        expect(run.output()).toContain(`${variable}=`);
        expect(run.output()).toContain("Step 1 failed");
      }
    } finally {
      server.close();
    }
  });

  it("names two ports that are one", async () => {
    const port = String(await freePort());
    const run = runDemo({ PORT: port, RPC_PORT: port });
    expect(await run.exited).toBe(1);
    expect(run.output()).toContain(`PORT and RPC_PORT are both ${port}.`);
  });

  inRelease(() => {
    it("uses the given ports and stops every process at Ctrl-C", async () => {
      const env = { PORT: String(await freePort()), RPC_PORT: String(await freePort()) };
      for (const sign of [
        `anvil listens on http://127.0.0.1:${env.RPC_PORT}`,
        `the Worker listens on http://127.0.0.1:${env.PORT}`,
      ]) {
        const run = runDemo(env);
        await untilPrinted(run, sign);
        const children = descendants(run.child.pid ?? 0);
        run.child.kill("SIGINT");
        expect(await run.exited).toBe(130);
        expect(run.output()).toContain("stopped");
        expect(run.output()).not.toContain("failed");
        expect(children.length).toBeGreaterThan(0);
        await ended(children);
      }
    });

    it("leaves no process running when it is killed", async () => {
      const run = runDemo();
      await untilPrinted(run, "the Worker listens on");
      const children = descendants(run.child.pid ?? 0);
      run.child.kill("SIGKILL");
      await run.exited;
      await ended(children);
    });
  });
});
