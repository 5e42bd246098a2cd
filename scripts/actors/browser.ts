/** Chromium for the journeys that need a browser. */
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const EXECUTABLE = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => existsSync(path));
const ARGS = [
  "--no-sandbox",
  "--disable-quic",
  // Pictures have fewer colours and are smaller.
  "--disable-lcd-text",
  "--disable-background-networking",
  // Chromium lets no page that playwright serves open a socket to a loopback address.
  "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",
];

/** Runs `use` in a browser. Warns and does nothing if none is installed. */
export async function inBrowser(use: (browser: Browser) => Promise<void>): Promise<void> {
  if (EXECUTABLE === undefined)
    return console.warn("skipped: no chromium here (Debian's package chromium)");
  const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
  try {
    await use(browser);
  } finally {
    await browser.close();
  }
}
