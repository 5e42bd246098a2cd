/** What is wrong with how a page looks, found without a picture to compare it with. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/**
 * Runs in the page. Texts and controls are boxes. A box is wrong if it leaves the page or what
 * clips it, or covers another one. Of a text that ends in an ellipsis only the shown part counts.
 * Text of screen readers and boxes that follow the window do not count.
 */
const FAULTS = `(() => {
  const faults = [];
  const boxes = [];
  const name = ({ text }) => JSON.stringify(text.trim().slice(0, 40));
  const add = (element, text, rect) => {
    const seen = { opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true };
    if (rect.width < 1 || rect.height < 1 || !element.checkVisibility(seen)) return;
    if (element.closest(".sr, .skip") !== null) return;
    let inside = null;
    for (let around = element; around !== null; around = around.parentElement) {
      const style = getComputedStyle(around);
      const edge = around.getBoundingClientRect();
      if (/fixed|sticky/.test(style.position)) return;
      // For screen readers only.
      if (style.position === "absolute" && edge.width <= 1) return;
      if (style.overflowX === "visible" || around === document.documentElement) continue;
      if (/auto|scroll/.test(style.overflowX + style.overflowY)) inside ??= around;
      else if (inside === null && (rect.right > edge.right + 1 || rect.bottom > edge.bottom + 1)
        && style.textOverflow !== "ellipsis") faults.push("cut: " + name({ text }));
      if (style.textOverflow === "ellipsis")
        rect = new DOMRect(rect.x, rect.y, Math.min(rect.right, edge.right) - rect.x, rect.height);
    }
    boxes.push({ element, text, rect, inside });
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    if (node.data.trim() === "") continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) add(node.parentElement, node.data, rect);
  }
  for (const control of document.querySelectorAll("button, input, select, textarea"))
    add(control, control.name || control.textContent || control.type, control.getBoundingClientRect());
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push("the page scrolls sideways");
  for (const box of boxes)
    if (box.inside === null && (box.rect.right > width + 1 || box.rect.left < -1))
      faults.push("overflows: " + name(box));
  boxes.forEach((one, index) => {
    for (const other of boxes.slice(index + 1)) {
      if (one.inside !== other.inside) continue;
      if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const wide = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
      const high = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top);
      if (wide > 2 && high > 4) faults.push("overlap: " + name(one) + " and " + name(other));
    }
  });
  return [...new Set(faults)];
})()`;

export function layoutFaults(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(FAULTS);
}

type Found = { violations: { id: string; nodes: { html: string }[] }[] };

/** Each rule of axe that the page violates, with where. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate<Found>("axe.run()");
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** Runs in the page. Sums the shifts that nobody caused by a click or a key. */
export const COUNT_SHIFTS = `globalThis.shifts = 0;
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput } of list.getEntries())
    if (!hadRecentInput) globalThis.shifts += value;
}).observe({ type: "layout-shift", buffered: true });`;
