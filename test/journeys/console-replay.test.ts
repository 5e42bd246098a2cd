/** Every page of the console with recorded data, without a stack: how it looks, what it weighs. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inBrowser } from "../../scripts/actors/browser.ts";
import { COUNT_SHIFTS, layoutFaults, violations } from "../support/node/console/layout.ts";
import { FLOODED, floodOf, metrics } from "../../scripts/console/quote-flood.ts";
import {
  ASSETS,
  FAILURE,
  goTo,
  NOW,
  openAsVisitor,
  openReplay,
  type Replay,
  startReplay,
} from "../../scripts/console/replay.ts";
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

  it("shows prices and markets to visitors, and moves nothing under them", () =>
    inBrowser(async (browser) => {
      const page = await openAsVisitor(browser, replay, { viewport: { width: 390, height: 844 } });
      await page.evaluate(COUNT_SHIFTS);
      for (const [hash, text] of [
        ["markets", "44.4%"],
        ["market/venue_one/0x1", "Sign in to ask for quotes"],
        ["sign-in/market/venue_one/0x1", "Stay signed in when this tab is reloaded"],
        ["portfolio", "Stay signed in when this tab is reloaded"],
      ] as const) {
        await goTo(page, hash);
        await page.getByText(text).waitFor();
        expect.soft(await layoutFaults(page), hash).toEqual([]);
        expect.soft(await violations(page), hash).toEqual([]);
      }
      expect(await page.evaluate<number>("globalThis.shifts")).toBeLessThan(0.05);
      await goTo(page, "sign-in/market/venue_one/0x1");
      await page.getByLabel("Email").fill("ada@desk.example");
      await page.getByLabel("Password").fill("replayed");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("Live", { exact: true }).waitFor();
      expect(page.url()).toMatch(/#market\/venue_one\/0x1$/);
      // Another tab is signed in too. A reload signs out, because nobody chose to stay.
      const other = await page.context().newPage();
      await other.goto(`${replay.baseUrl}/console/#account`);
      await other.getByText("Live", { exact: true }).waitFor();
      await page.close();
      await other.reload();
      await other.getByLabel("Email").fill("ada@desk.example");
      await other.getByLabel("Password").fill("replayed");
      await other.getByLabel("Stay signed in when this tab is reloaded").check();
      await other.getByRole("button", { name: "Sign in" }).click();
      await other.getByText("Live", { exact: true }).waitFor();
      await other.reload();
      await other.getByText("Live", { exact: true }).waitFor();
      await other.getByRole("button", { name: "Sign out" }).first().click();
      await other.getByRole("button", { name: "Sign in" }).waitFor();
      expect(await other.evaluate("sessionStorage.length + localStorage.length")).toBe(0);
    }));

  it("says which reading failed, and tries again", () =>
    inBrowser(async (browser) => {
      const page = await openReplay(browser, replay);
      const failing = ["GET /rfq/get-positions", "GET /auth/policy", "GET /custody/get-ledger"];
      for (const call of failing) replay.answers.set(call, () => FAILURE);
      for (const [hash, text] of [
        ["portfolio", "Could not read your positions. The service failed."],
        ["wallet/safety", "Could not read your limits. The service failed."],
        ["wallet/ledger", "Could not read this part. The service failed."],
      ] as const) {
        await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
        await page.getByRole("alert").filter({ hasText: text }).waitFor();
        expect.soft(await layoutFaults(page), hash).toEqual([]);
      }
      for (const call of failing) replay.answers.delete(call);
      await page.getByRole("button", { name: "Try again" }).click();
      await page.getByRole("region", { name: "Ledger entries, newest first" }).waitFor();
    }));

  it("shows the most traded of 5 000 markets, and the names of those that it shows", () =>
    inBrowser(async (browser) => {
      const all = Array.from({ length: 5_000 }, (_, index) => ({
        ...(replay.recorded("GET /markets?limit=500")["items"] as object[])[0],
        asset_id: `0x${(index + 0x1000).toString(16)}`,
        title: `Question ${index}`,
      }));
      let named = 0;
      replay.answers.set("GET /markets", ({ searchParams }) => {
        const ids = searchParams.get("assets")?.split(",");
        if (ids !== undefined) {
          named += ids.length;
          const items = ids.map((asset_id) => ({
            ...all[0],
            asset_id,
            title: `Name of ${asset_id}`,
          }));
          return { items, next_cursor: null };
        }
        const [from, limit] = [
          Number(searchParams.get("last_cursor") ?? 0),
          Number(searchParams.get("limit")),
        ];
        const items = all.slice(from, from + limit);
        return { items, next_cursor: from + limit < all.length ? String(from + limit) : null };
      });
      const page = await openReplay(browser, replay);
      await goTo(page, "markets");
      await page.getByText("The 120 questions that traded most.").waitFor();
      await page.getByRole("button", { name: "Show more" }).click();
      await page.getByText("The 240 questions that traded most.").waitFor();
      await goTo(page, "portfolio");
      await page.getByText("Name of 0x").first().waitFor();
      await goTo(page, "maker");
      await page
        .getByRole("link", { name: /^Name of 0x/ })
        .first()
        .waitFor();
      expect(named).toBeLessThan(100);
      replay.answers.delete("GET /markets");
    }));

  it("says that a result is a proposal, then pays it and says so", () =>
    inBrowser(async (browser) => {
      const read = "GET /markets?venue_id=venue_one&asset_id=0x1&limit=1";
      const [market] = replay.recorded(read)["items"] as object[];
      const settles = (hours: number) => {
        const settles_at = new Date(NOW + hours * 3_600_000).toISOString();
        const result = { status: "closed", result: 1_000_000, resolved_by: "operator", settles_at };
        const items = [{ ...market, ...result, complement_asset_id: "0x2" }];
        replay.answers.set("GET /markets", () => ({ items, next_cursor: null }));
      };
      replay.answers.set("POST /custody/redeem", () => ({ items: [] }));
      const result = async (text: string) => {
        const page = await openReplay(browser, replay);
        await goTo(page, "market/venue_one/0x1");
        await page.getByRole("region", { name: "Result" }).getByText(text).waitFor();
        expect(await layoutFaults(page)).toEqual([]);
        return page;
      };
      settles(1);
      await result("This is a proposal. It is final in 1 h");
      settles(-1);
      const page = await result("The result is final");
      await page.getByRole("button", { name: /^Redeem/ }).click();
      await page.getByText(/USDC is yours\.$/).waitFor();
      replay.answers.delete("GET /markets");
    }));

  it("keeps the maker's button that cancels all in its place, whatever is said", () =>
    inBrowser(async (browser) => {
      const page = await openReplay(browser, replay, { viewport: { width: 1_440, height: 900 } });
      replay.answers.set("POST /rfq/cancel-after", () => ({ cancel_at: null }));
      replay.answers.set("POST /rfq/quotes", () => ({ results: [] }));
      replay.answers.set("DELETE /rfq/quotes", () => ({ cancelled: 3 }));
      await goTo(page, "maker");
      const all = page.getByRole("button", { name: /^Cancel all quotes/ });
      const before = await all.boundingBox();
      await page.getByRole("button", { name: /^Replace all/ }).click();
      await page.getByText(/quotes replaced\.$/).waitFor();
      expect(await all.boundingBox()).toEqual(before);
      await all.click();
      await page.getByText("3 quotes cancelled.").waitFor();
      expect(await all.boundingBox()).toEqual(before);
      expect(await layoutFaults(page)).toEqual([]);
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

  it("loads at most 170 KB of JavaScript, of which the home page takes 105 KB", () => {
    const size = (file: string) => gzipSync(readFileSync(join(ASSETS, "console", file))).length;
    const scripts = readdirSync(join(ASSETS, "console/assets")).filter((file) =>
      file.endsWith(".js"),
    );
    const all = scripts.reduce((sum, file) => sum + size(`assets/${file}`), 0);
    const page = readFileSync(join(ASSETS, "console/index.html"), "utf8");
    const [entry = ""] = /assets\/[^"]+\.js/.exec(page) ?? [];
    // What the entry imports at once is loaded with it.
    const text = readFileSync(join(ASSETS, "console", entry), "utf8");
    const beside = [...text.matchAll(/(?:from|import) ?"\.\/([^"]+\.js)"/g)];
    const first = beside.reduce((sum, [, file = ""]) => sum + size(`assets/${file}`), size(entry));
    expect(first).toBeGreaterThan(50 * KB);
    expect(first).toBeLessThan(105 * KB);
    expect(all).toBeLessThan(170 * KB);
    const [font = ""] = readdirSync(join(ASSETS, "console/assets")).filter((file) =>
      file.endsWith(".woff2"),
    );
    expect(statSync(join(ASSETS, "console/assets", font)).size).toBeLessThan(60 * KB);
  });
});
