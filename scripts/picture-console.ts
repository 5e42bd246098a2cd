/**
 * `npm run picture:console` writes the pictures of docs/console/, from recorded data at a fixed
 * time. Nothing compares them.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { inBrowser } from "./actors/browser.ts";
import { goTo, openReplay, startReplay } from "./console/replay.ts";

const DIR = join(import.meta.dirname, "../docs/console");
/** Enough of a long page. */
const MOST_HEIGHT = 900;
const PICTURES = [
  ["markets", "markets", 1_440, "light"],
  ["market", "market/venue_one/0x1", 1_440, "light"],
  ["quotes", "market/venue_one/0x2", 1_440, "dark"],
  ["portfolio", "portfolio", 1_440, "light"],
  ["maker", "maker", 1_440, "dark"],
  ["wallet", "wallet", 1_440, "light"],
  ["markets", "markets", 390, "dark"],
  ["market", "market/venue_one/0x1", 390, "light"],
] as const;

const replay = await startReplay();
rmSync(DIR, { recursive: true, force: true });
await inBrowser(async (browser) => {
  for (const [name, hash, width, colorScheme] of PICTURES) {
    const viewport = { width, height: 900 };
    const page = await openReplay(browser, replay, { viewport, colorScheme });
    await goTo(page, hash);
    const whole = await page.evaluate<number>("document.documentElement.scrollHeight");
    await page.setViewportSize({ width, height: Math.min(whole, MOST_HEIGHT) });
    const file = `${name}-${width}-${colorScheme}.png`;
    await page.screenshot({ path: join(DIR, file), animations: "disabled" });
    await page.context().close();
  }
});
replay.stop();
