/**
 * The peer of `rfq`: writes the rows of quotes by bare D1 batches, one after the other, without
 * HTTP, signature, guard or result. `each` uses one INSERT per row, as an ORM does. `sets` uses one
 * INSERT per table, from JSON.
 */
import { DurableObject } from "cloudflare:workers";

export class Peer extends DurableObject {
  #seq = 0;
  #perMaker = 1;

  /**
   * Writes groups of so many quotes for `ms` milliseconds. Each maker places `perMaker` of them
   * before the next one.
   */
  async run({ quotes, perMaker, ms, style, makers, asset }) {
    this.#perMaker = perMaker;
    const db = this.env.DB;
    const accounts = await this.#accounts(makers, asset);
    const [started, until] = [Date.now(), Date.now() + ms];
    let written = 0;
    while (Date.now() < until) {
      await db.batch(
        style === "sets"
          ? this.#sets(quotes, accounts, asset)
          : this.#each(quotes, accounts, asset),
      );
      written += quotes;
    }
    return { written, ms: Date.now() - started };
  }

  async #accounts(makers, asset) {
    const db = this.env.DB;
    const { results } = await db
      .prepare(
        `SELECT a.account_id AS available, p.account_id AS pending, hex(a.owner) AS owner
          FROM json_each(?) u
         JOIN accounts a ON a.owner = unhex(u.value, '-') AND a.asset = ? AND a.kind = 'available'
         JOIN accounts p ON p.owner = a.owner AND p.asset = a.asset AND p.kind = 'pending'`,
      )
      .bind(JSON.stringify(makers), asset)
      .all();
    const names = JSON.stringify([...results.map(({ owner }) => owner), "requester"]);
    await db.batch([
      db
        .prepare(
          `INSERT INTO streams (name, last_seq, pushed_seq, first_seq, active_at)
            SELECT 'account:' || u.value, 0, 0, 1, 0 FROM json_each(?) u
            WHERE NOT EXISTS (SELECT 1 FROM streams WHERE name = 'account:' || u.value)`,
        )
        .bind(names),
    ]);
    const streams = (
      await db
        .prepare(
          `SELECT s.stream_id AS id, s.last_seq AS last FROM json_each(?) u
            JOIN streams s ON s.name = 'account:' || u.value ORDER BY u.key`,
        )
        .bind(names)
        .all()
    ).results;
    const requester = streams.pop();
    return { makers: results.map((row, index) => ({ ...row, stream: streams[index] })), requester };
  }

  #rows(count, { makers, requester }, asset) {
    const rows = [];
    const events = new Map();
    const [venue, assetId] = asset.split(":0x");
    for (let i = 0; i < count; i++) {
      const maker = makers[Math.floor(this.#seq++ / this.#perMaker) % makers.length];
      const quote = crypto.randomUUID().replaceAll("-", "");
      const ids = quote + quote + assetId.padStart(64, "0");
      const values = [venue, "Bid", "1000", 500_000, "500", "0", 300_000];
      rows.push({
        quote,
        maker: maker.owner,
        from: maker.available,
        to: maker.pending,
      });
      events.set(maker.stream, [...(events.get(maker.stream) ?? []), { ids, values }]);
    }
    const received = [...events.values()].flat();
    const opened = [...events].map(([stream, own]) =>
      runOf(
        stream,
        QUOTE_OPENED,
        own.map(({ ids, values }) => ({ ids, values: [...values, "1000"] })),
      ),
    );
    return { rows, runs: [...opened, runOf(requester, QUOTE_RECEIVED, received)] };
  }

  #begin() {
    return this.env.DB.prepare(
      "INSERT INTO commit_groups (group_id, at, voided) VALUES (unhex(?, '-'), ?, 0)",
    ).bind(crypto.randomUUID(), Date.now());
  }

  #each(count, accounts, asset) {
    const db = this.env.DB;
    const now = Date.now();
    const quote = db.prepare(
      `INSERT INTO quotes (quote_id, request_id, maker_id, credential, asset, amount, side, price,
        usdc_amount, taker_fee, maker_fee, reserve, status, opened_at, expires_at,
        opened_group, maker_open)
       VALUES (unhex(?), unhex(?), unhex(?), unhex(?), ?, '1000', 'Bid', 500000, 500, 0, 0, 1000, 'open', ?, ?, 1, 1)`,
    );
    const transfer = db.prepare(
      `INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
        VALUES (?, ?, 1000, 3, unhex(?), 1, 0, ?)`,
    );
    const key = db.prepare(
      `INSERT INTO idempotency_keys (key_hash, terms_hash, record_id)
       VALUES (randomblob(12), randomblob(4), unhex(?))`,
    );
    const run = db.prepare(
      `INSERT INTO event_runs (stream_id, last_seq, first_seq, at, ids, events)
        VALUES (?, ?, ?, ?, unhex(?), ?)`,
    );
    const { rows, runs } = this.#rows(count, accounts, asset);
    return [
      this.#begin(),
      ...rows.flatMap((row) => [
        quote.bind(row.quote, row.quote, row.maker, row.maker, asset, now, now + 300_000),
        transfer.bind(row.from, row.to, row.quote, now),
        key.bind(row.quote),
      ]),
      ...runs.map(({ stream, first, last, ids, events }) =>
        run.bind(stream, last, first, now, ids, events),
      ),
    ];
  }

  #sets(count, accounts, asset) {
    const db = this.env.DB;
    const now = Date.now();
    const { rows, runs } = this.#rows(count, accounts, asset);
    const list = JSON.stringify(rows);
    return [
      this.#begin(),
      db
        .prepare(
          `INSERT INTO quotes (quote_id, request_id, maker_id, credential, asset, amount, side, price,
            usdc_amount, taker_fee, maker_fee, reserve, status, opened_at,
            expires_at, opened_group, maker_open)
           SELECT unhex(r.value ->> 'quote'), unhex(r.value ->> 'quote'),
             unhex(r.value ->> 'maker'), unhex(r.value ->> 'maker'), ?, '1000', 'Bid', 500000, 500, 0, 0, 1000, 'open',
             ?, ?, 1, 1 FROM json_each(?) r`,
        )
        .bind(asset, now, now + 300_000, list),
      db
        .prepare(
          `INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
            SELECT r.value ->> 'from', r.value ->> 'to', 1000, 3, unhex(r.value ->> 'quote'), 1, 0, ?
            FROM json_each(?) r`,
        )
        .bind(now, list),
      db
        .prepare(
          `INSERT INTO event_runs (stream_id, last_seq, first_seq, at, ids, events)
            SELECT e.value ->> 'stream', e.value ->> 'last', e.value ->> 'first', ?, unhex(e.value ->> 'ids'), e.value ->> 'events'
            FROM json_each(?) e ORDER BY e.key`,
        )
        .bind(now, JSON.stringify(runs)),
      db
        .prepare(
          `INSERT INTO idempotency_keys (key_hash, terms_hash, record_id)
           SELECT randomblob(12), randomblob(4), unhex(r.value ->> 'quote') FROM json_each(?) r`,
        )
        .bind(list),
    ];
  }
}

/** Codes of events and the units of 16 bytes that the ids of one take (event-forms.ts). */
const QUOTE_OPENED = 3;
const QUOTE_RECEIVED = 4;
const IDS_OF_EVENT = 4;

/** The next events of a stream, as a row of `event_runs`. */
function runOf(stream, code, own) {
  const first = stream.last + 1;
  stream.last += own.length;
  const events = own.map(({ values }, index) => [index * IDS_OF_EVENT, code, ...values]);
  return {
    stream: stream.id,
    first,
    last: stream.last,
    ids: own.map(({ ids }) => ids).join(""),
    events: JSON.stringify(events),
  };
}

export default {
  async fetch(request, env) {
    return Response.json(await env.PEER.getByName("peer").run(await request.json()));
  },
};
