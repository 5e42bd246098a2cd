/** A list that is read page by page, or as an async iterable that fetches pages as needed. */
import type { CallOptions, Transport } from "./transport.ts";
import type { QueryValue } from "./wire.ts";

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

  constructor(
    transport: Transport,
    path: string,
    query: Record<string, QueryValue>,
    options: CallOptions,
    { public: isPublic = false }: { public?: boolean } = {},
  ) {
    this.#public = isPublic;
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
  page(last_cursor?: string): Promise<Page<T>> {
    const query = last_cursor === undefined ? this.#query : { ...this.#query, last_cursor };
    return this.#transport.call({
      method: "GET",
      path: this.#path,
      query,
      public: this.#public,
      options: this.#options,
    });
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
