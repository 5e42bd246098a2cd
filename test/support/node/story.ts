/** A person in the console who finds everything by role and accessible name, as a reader says it. */
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { layoutFaults } from "./console/layout.ts";
import type { Trader } from "./stack.ts";

type Role = Parameters<Page["getByRole"]>[0];
type Name = string | RegExp;

/** Opens the console in a context of its own and signs in. */
export async function signIn(
  browser: Browser,
  { baseUrl, trader }: { baseUrl: string; trader: Pick<Trader, "email" | "password"> },
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1_440, height: 900 }, ...options });
  const page = await context.newPage();
  await enter(page, { baseUrl, trader });
  return page;
}

/** Opens the console in a page and signs in. */
export async function enter(
  page: Page,
  { baseUrl, trader }: { baseUrl: string; trader: Pick<Trader, "email" | "password"> },
): Promise<void> {
  page.on("pageerror", (error) => expect.soft(error.message).toBe(""));
  await page.goto(`${baseUrl}/console/#sign-in`);
  await page.getByLabel("Email").fill(trader.email);
  await page.getByLabel("Password").fill(trader.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Live", { exact: true }).waitFor();
}

/** Each click, filled field and key is one action. Throws at the first one above the limit. */
export class Story {
  readonly #page: Page;
  readonly #atMost: number;
  #actions = 0;

  constructor(page: Page, atMost: number) {
    this.#page = page;
    this.#atMost = atMost;
  }

  /** `within` names the region that holds it, where its own name is not enough. */
  async press(role: Role, name: Name, within?: Name): Promise<void> {
    this.#count(`press ${role} ${String(name)}`);
    await this.#find(role, name, within).click();
    await this.#look(name);
  }

  async fill(name: Name, text: string, within?: Name): Promise<void> {
    this.#count(`fill ${String(name)}`);
    // By its label, because a password field has no role.
    await this.#place(within).getByLabel(name, { exact: true }).fill(text);
    await this.#look(name);
  }

  /** A key on what has the focus, as `Enter` or `Tab`. */
  async key(key: string): Promise<void> {
    this.#count(`key ${key}`);
    await this.#page.keyboard.press(key);
  }

  /** Fills the field that has the focus, which must have this name. */
  async write(role: Role, name: Name, text: string): Promise<void> {
    this.#count(`write ${String(name)}`);
    await this.#find(role, name).and(this.#page.locator(":focus")).waitFor();
    await this.#page.keyboard.type(text);
  }

  /** Waits for what the person reads. No action. */
  async read(role: Role, name: Name, within?: Name): Promise<void> {
    await this.#find(role, name, within).waitFor();
    await this.#look(name);
  }

  /** Pages are right after each step, and not only at rest. */
  async #look(name: Name): Promise<void> {
    expect.soft(await layoutFaults(this.#page), `after ${String(name)}`).toEqual([]);
  }

  #find(role: Role, name: Name, within?: Name): Locator {
    return this.#place(within).getByRole(role, { name, exact: true });
  }

  #place(within?: Name): Page | Locator {
    return within === undefined
      ? this.#page
      : this.#page.getByRole("region", { name: within, exact: true });
  }

  #count(action: string): void {
    this.#actions += 1;
    if (this.#actions > this.#atMost)
      throw new Error(`“${action}” is action ${this.#actions} of at most ${this.#atMost}.`);
  }
}
