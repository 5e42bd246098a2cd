/** Every page of the console with recorded data, without a stack: how it looks, what it weighs. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inBrowser } from "../support/node/browser.ts";
import { COUNT_SHIFTS, layoutFaults, violations } from "../support/node/console/layout.ts";
import { FLOODED, floodOf, metrics } from "../support/node/console/quote-flood.ts";
import {
  ASSETS,
  goTo,
  openReplay,
  type Replay,
  startReplay,
} from "../support/node/console/replay.ts";
import { FULL } from "../support/depth.ts";

/** The second one of the two markets has an open request with quotes. */
const PAGES = [
  "markets",
  "market/venue_one/0x1",
  "market/venue_one/0x2",
  "portfolio",
  "maker",
  "wallet",
  "wallet/withdraw",
  "wallet/safety",
  "wallet/ledger",
  "account",
];
const KB = 1_000;

let replay: Replay;

beforeAll(async () => {
  replay = await startReplay();
});
afterAll(() => replay?.stop());

describe("the console with recorded data", () => {
  it.for(
    [390, 768, 1_440]
      .flatMap((width) => (["light", "dark"] as const).map((scheme) => [width, scheme] as const))
      .filter(([width, scheme]) => FULL || (width === 768) === (scheme === "dark")),
  )("fits, covers and cuts nothing and has no violations at %i px in %s", ([width, colorScheme]) =>
    inBrowser(async (browser) => {
      const page = await openReplay(browser, replay, {
        viewport: { width, height: 900 },
        colorScheme,
      });
      for (const hash of PAGES) {
        await goTo(page, hash);
        expect.soft(await layoutFaults(page), `${hash} at ${width}`).toEqual([]);
        expect.soft(await violations(page), `${hash} at ${width} in ${colorScheme}`).toEqual([]);
      }
    }),
  );

  it("hardly shifts while pages load", () =>
    inBrowser(async (browser) => {
      const page = await openReplay(browser, replay, { viewport: { width: 390, height: 844 } });
      await page.evaluate(COUNT_SHIFTS);
      // The others are opened by a click on their page, and what a click moves does not count.
      for (const hash of PAGES.filter((name) => !name.startsWith("wallet/"))) {
        await page.evaluate("globalThis.shifts = 0");
        await goTo(page, hash);
        expect.soft(await page.evaluate<number>("globalThis.shifts"), hash).toBeLessThan(0.05);
      }
    }));

  it.for(["ticket", "maker"] as const satisfies (keyof typeof FLOODED)[])(
    "keeps no more after 10 000 events than after 1 000: %s",
    (name) =>
      inBrowser(async (browser) => {
        const page = await openReplay(browser, replay, { ticking: true });
        const flood = await floodOf({ page, replay }, name, { renewed: true });
        const session = await page.context().newCDPSession(page);
        await session.send("Performance.enable");
        const after = async (events: number) => {
          for (let sent = 0; sent < events; sent += 250) {
            flood(250);
            await page.waitForTimeout(50);
          }
          // Until the lists were read again.
          await page.waitForTimeout(1_500);
          await session.send("HeapProfiler.collectGarbage");
          return metrics(session);
        };
        /** Rows that just went are not always collected yet. What leaks never is. */
        const leastAfter = async (events: number, most = { nodes: 0, heap: 0 }) => {
          let least = { nodes: Infinity, heap: Infinity };
          for (let count = 0; count < 8; count++) {
            const { Nodes, JSHeapUsedSize } = await after(count === 0 ? events : 250);
            least = {
              nodes: Math.min(least.nodes, Nodes),
              heap: Math.min(least.heap, JSHeapUsedSize),
            };
            if (least.nodes < most.nodes && least.heap < most.heap) break;
          }
          return least;
        };
        const few = await leastAfter(1_000);
        expect(few.nodes).toBeGreaterThan(100);
        // Requests that are never removed take 2 800 KB.
        const most = { nodes: few.nodes * 1.1, heap: few.heap + 1_500 * KB };
        const many = await leastAfter(9_000, most);
        expect(many.nodes).toBeLessThan(most.nodes);
        expect(many.heap).toBeLessThan(most.heap);
      }),
  );

  it("loads at most 180 KB of JavaScript, of which the home page takes 110 KB", () => {
    const size = (file: string) => gzipSync(readFileSync(join(ASSETS, "console", file))).length;
    const scripts = readdirSync(join(ASSETS, "console/assets")).filter((file) =>
      file.endsWith(".js"),
    );
    const all = scripts.reduce((sum, file) => sum + size(`assets/${file}`), 0);
    const page = readFileSync(join(ASSETS, "console/index.html"), "utf8");
    const home = [...page.matchAll(/"\.?\/?(?:console\/)?(assets\/[^"]+\.js)"/g)];
    const first = home.reduce((sum, [, file = ""]) => sum + size(file), 0);
    expect(first).toBeGreaterThan(50 * KB);
    expect(first).toBeLessThan(110 * KB);
    expect(all).toBeLessThan(180 * KB);
  });
});
