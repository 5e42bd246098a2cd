/** A list that is read page by page, or as an async iterable that fetches pages as needed. */
import { NoAnswer } from "./problem.ts";
import type { CallOptions, Transport } from "./transport.ts";
import { decode, type QueryValue } from "./wire.ts";

/** One page. The list ends where `next_cursor` is null. Some pages with filters are short. */
export type Page<T> = { items: T[]; next_cursor: string | null };

/** Page size and position. */
export type PageOptions = {
  /** Items per page. Default: 50. The service returns at most 500. */
  limit?: number;
  /** `next_cursor` of the previous page. Default: the first page. */
  last_cursor?: string;
};

/**
 * A list that has not been read yet. Iterate over it, or read single pages. Each page is one
 * request, which the client retries. `Problem` and `NoAnswer` are thrown while reading.
 *
 * @example
 * ```ts
 * for await (const match of client.rfq.matches()) console.log(match.match_id);
 * const { items, next_cursor } = await client.rfq.matches({ limit: 10 }).page();
 * ```
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Record<string, QueryValue>;
  readonly #options: CallOptions;
  readonly #public: boolean;
  readonly #lines: boolean;

  constructor(
    transport: Transport,
    path: string,
    query: Record<string, QueryValue>,
    options: CallOptions,
    { public: isPublic = false, lines = false }: { public?: boolean; lines?: boolean } = {},
  ) {
    this.#public = isPublic;
    this.#lines = lines;
    this.#transport = transport;
    this.#path = path;
    this.#query = query;
    this.#options = options;
  }

  /**
   * Reads the page at `last_cursor`, by default the first page.
   *
   * @example
   * ```ts
   * const matches = client.rfq.matches({ limit: 10 });
   * const first = await matches.page();
   * const second = first.next_cursor === null ? null : await matches.page(first.next_cursor);
   * ```
   */
  async page(last_cursor?: string): Promise<Page<T>> {
    const query = last_cursor === undefined ? this.#query : { ...this.#query, last_cursor };
    const call = { method: "GET", path: this.#path, query, options: this.#options } as const;
    if (!this.#lines) return this.#transport.call({ ...call, public: this.#public });
    const accept = "application/x-ndjson";
    return pageOfLines(this.#path, await this.#transport.call<string>({ ...call, accept }));
  }

  /**
   * Yields each item once and fetches a page when it is needed. Leaving the loop stops fetching.
   *
   * @example
   * ```ts
   * for await (const deposit of client.custody.deposits()) {
   *   if (deposit.status === "credited") break;
   * }
   * ```
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let page = await this.page();
    for (;;) {
      yield* page.items;
      // With `limit: 0` every page is empty and has a cursor. A page of a filtered list can be.
      if (page.next_cursor === null || this.#query["limit"] === 0) return;
      page = await this.page(page.next_cursor);
    }
  }

  /**
   * Reads all items into one array. Use it only for lists that are known to be short.
   *
   * @example
   * ```ts
   * const keys = await client.auth.apiKeys().all();
   * ```
   */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }
}

/** The last line has the cursor, so a response without it was cut off. */
function pageOfLines<T>(path: string, text: string): Page<T> {
  const lines = text.split("\n").filter((line) => line !== "");
  const end = /^\{"next_cursor":.*\}$/.test(lines.at(-1) ?? "") ? lines.pop() : undefined;
  if (end === undefined) throw new NoAnswer(`GET ${path}`, "the export is incomplete");
  // Safe casts: the service writes these lines.
  const { next_cursor } = JSON.parse(end) as Pick<Page<T>, "next_cursor">;
  return { items: lines.map((line) => decode(line) as T), next_cursor };
}
