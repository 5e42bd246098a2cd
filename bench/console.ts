/**
 * What quotes cost the page of a taker and that of a maker, on a processor four times slower. The
 * console is replayed without a stack (test/support/node/console/replay.ts).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { FLOODED, floodOf, metrics } from "../test/support/node/console/quote-flood.ts";
import { openReplay, startReplay } from "../test/support/node/console/replay.ts";
import { inBrowser } from "../test/support/node/browser.ts";
import type { Bench, Figure } from "./figures.ts";

const SLOWDOWN = 4;
const QUOTES_A_SECOND = 50;
/** A page reads its lists again in the first of them. */
const [WARM_SECS, SECS] = [2, 10];
/** Runs in the page. Chromium reports tasks of 50 ms and more. */
const LONG_TASKS = `new PerformanceObserver((list) => {
  globalThis.longTasks = [...(globalThis.longTasks ?? []), ...list.getEntries()];
}).observe({ type: "longtask" })`;

export const benchConsole: Bench = async ({ quick, onStop }) => {
  const replay = await startReplay();
  onStop(async () => replay.stop());
  const figures: Figure[] = [];
  await inBrowser(async (browser) => {
    for (const name of ["ticket", "maker"] as const satisfies (keyof typeof FLOODED)[]) {
      const page = await openReplay(browser, replay, {
        ticking: true,
        viewport: { width: 1_440, height: 900 },
      });
      const flood = await floodOf({ page, replay }, name);
      const session = await page.context().newCDPSession(page);
      // The time of the thread, because others use the processor too.
      await session.send("Performance.setTimeDomain", { timeDomain: "threadTicks" });
      await session.send("Performance.enable");
      await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWDOWN });
      const run = async (secs: number) => {
        for (let sent = 0; sent < secs * QUOTES_A_SECOND; sent++) {
          flood(1);
          await sleep(1_000 / QUOTES_A_SECOND);
        }
      };
      await run(WARM_SECS);
      await page.evaluate(LONG_TASKS);
      const [before, started] = [await metrics(session), performance.now()];
      await run(quick ? 2 : SECS);
      const [after, ended] = [await metrics(session), performance.now()];
      const busy = (after.TaskDuration - before.TaskDuration) * 1_000;
      const tasks = await page.evaluate<number[]>(
        "(globalThis.longTasks ?? []).map(({ duration }) => duration)",
      );
      figures.push(
        {
          what: `${name}: main thread in a second`,
          ours: busy / ((ended - started) / 1_000),
          unit: "ms",
          target: { atMost: 300 },
        },
        {
          what: `${name}: longest task`,
          ours: Math.max(0, ...tasks),
          unit: "ms",
          target: { atMost: 50 },
          note: `${tasks.length} tasks of 50 ms or more`,
        },
      );
      await page.context().close();
    }
  });
  return figures;
};
