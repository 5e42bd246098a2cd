/**
 * What quotes cost the page of a taker and that of a maker, on a processor four times slower. The
 * console is replayed without a stack (scripts/console/replay.ts).
 *
 * Time is that of the page's thread, times four. Chromium can slow a page down itself, but then it
 * also counts what others take from the processor meanwhile.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { CDPSession, Page } from "playwright-core";
import { FLOODED, floodOf, metrics } from "../scripts/console/quote-flood.ts";
import { openReplay, type Replay, startReplay } from "../scripts/console/replay.ts";
import { inBrowser } from "../scripts/actors/browser.ts";
import type { Bench, Figure } from "./figures.ts";

const SLOWDOWN = 4;
const QUOTES_A_SECOND = 50;
/** A page reads its lists again in the first of them. */
const [WARM_SECS, SECS] = [4, 10];
/** What a page costs that only shows a number, as often as quotes come. */
const TRIVIAL = `document.body.innerHTML = "<p></p>";
setInterval(() => document.querySelector("p").textContent = Math.random(), ${1_000 / QUOTES_A_SECOND})`;

export const benchConsole: Bench = async ({ quick, onStop }) => {
  const replay = await startReplay();
  onStop(async () => replay.stop());
  const secs = quick ? 2 : SECS;
  const figures: Figure[] = [];
  await inBrowser(async (browser) => {
    const open = () =>
      openReplay(browser, replay, { ticking: true, viewport: { width: 1_440, height: 900 } });
    for (const name of ["ticket", "maker"] as const satisfies (keyof typeof FLOODED)[])
      figures.push(...(await figuresOf(await open(), { replay, name, secs })));
    const page = await browser.newPage();
    await page.evaluate(TRIVIAL);
    const session = await sessionOf(page);
    const ours = await busyMs(session, () => sleep(secs * 1_000));
    figures.push({ what: "a page with one number: main thread in a second", ours, unit: "ms" });
  });
  return figures;
};

async function figuresOf(
  page: Page,
  { replay, name, secs }: { replay: Replay; name: keyof typeof FLOODED; secs: number },
): Promise<Figure[]> {
  const flood = await floodOf({ page, replay }, name);
  const session = await sessionOf(page);
  const send = async (during: number) => {
    const started = performance.now();
    for (let sent = 0; sent < during * QUOTES_A_SECOND; sent++) {
      flood(1);
      const next = started + ((sent + 1) * 1_000) / QUOTES_A_SECOND;
      await sleep(Math.max(0, next - performance.now()));
    }
  };
  await sleep(WARM_SECS * 1_000);
  const idle = await busyMs(session, () => sleep(secs * 1_000));
  await send(WARM_SECS);
  const busy = await busyMs(session, () => send(secs));
  const longest = await longestTaskMs(page, () => send(secs));
  await page.context().close();
  const note = `${idle.toFixed(0)} ms without quotes`;
  return [
    {
      what: `${name}: main thread in a second`,
      ours: busy,
      unit: "ms",
      target: { atMost: 300 },
      note,
    },
    { what: `${name}: longest task`, ours: longest, unit: "ms", target: { atMost: 50 } },
  ];
}

async function sessionOf(page: Page): Promise<CDPSession> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.setTimeDomain", { timeDomain: "threadTicks" });
  await session.send("Performance.enable");
  return session;
}

/** Of each second, what the main thread works while something happens. */
async function busyMs(session: CDPSession, happens: () => Promise<void>): Promise<number> {
  const [before, started] = [await metrics(session), performance.now()];
  await happens();
  const [after, ended] = [await metrics(session), performance.now()];
  const secs = (ended - started) / 1_000;
  return ((after.TaskDuration - before.TaskDuration) * 1_000 * SLOWDOWN) / secs;
}

/** Events of Chromium's tracing. Thread time in microseconds. */
type Traced = { name: string; pid: number; tid: number; tdur?: number; args: { name?: string } };

async function longestTaskMs(page: Page, happens: () => Promise<void>): Promise<number> {
  const browser = page.context().browser();
  if (browser === null) throw new Error("The page has no browser.");
  const session = await browser.newBrowserCDPSession();
  const events: Traced[] = [];
  // Safe cast: this is the format of Chromium's trace events.
  session.on("Tracing.dataCollected", ({ value }) =>
    events.push(...(value as unknown[] as Traced[])),
  );
  const traceConfig = { includedCategories: ["toplevel"] };
  await session.send("Tracing.start", { transferMode: "ReportEvents", traceConfig });
  await happens();
  const complete = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await complete;
  const pages = events.filter(({ args: { name } }) => name === "CrRendererMain");
  const tasks = events.filter(
    ({ name, ...of }) =>
      name.endsWith("RunTask") && pages.some((one) => one.pid === of.pid && one.tid === of.tid),
  );
  return (Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000) * SLOWDOWN;
}
