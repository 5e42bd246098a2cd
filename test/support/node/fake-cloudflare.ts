/**
 * A fake of Cloudflare's HTTP API, for the real wrangler (CLOUDFLARE_API_BASE_URL). It has what
 * wrangler 4 sends for this project, and refuses the rest, which `unknown` names. Databases are
 * SQLite.
 */
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";

type Json = Record<string, unknown>;
type Bucket = {
  location: string;
  jurisdiction?: string;
  rules: { id: string; prefix: string }[];
} & Json;
type Version = { id: string; metadata: Json };
type Worker = {
  secrets: Record<string, string>;
  versions: Version[];
  /** Ids of versions, newest first. The first one runs. */
  deployed: string[];
  schedules: unknown;
  domains: unknown;
};

export class FakeAccount {
  readonly id: string;
  readonly databases = new Map<string, { uuid: string; location: string; db: DatabaseSync }>();
  readonly queues = new Map<string, { id: string; consumers: Json[]; jurisdiction?: unknown }>();
  readonly buckets = new Map<string, Bucket>();
  /** By bucket and key. */
  readonly objects = new Map<string, Buffer>();
  readonly workers = new Map<string, Worker>();
  /** Each Time Travel: the database and the bookmark. */
  readonly restored: string[] = [];
  /** The service and entrypoint of each remote binding that was opened. */
  readonly previews: string[] = [];

  constructor(id: string) {
    this.id = id;
  }

  addDatabase(name: string, location = "weur"): DatabaseSync {
    const one = { uuid: randomUUID(), location, db: new DatabaseSync(":memory:") };
    this.databases.set(name, one);
    return one.db;
  }

  db(name: string): DatabaseSync {
    return found(this.databases.get(name), 7404, `The database ${name} could not be found`).db;
  }

  /** The deployed Worker's configuration. */
  running(name: string): Json {
    const worker = this.workers.get(name);
    return worker?.versions.find(({ id }) => id === worker.deployed[0])?.metadata ?? {};
  }
}

class Refused extends Error {
  readonly code: number;
  readonly status: number;
  constructor(code: number, message: string, status = 404) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

function found<T>(value: T | undefined, code: number, message: string): T {
  if (value === undefined) throw new Refused(code, message);
  return value;
}

type Call = {
  account: FakeAccount;
  /** Groups of the route's pattern. */
  at: string[];
  query: URLSearchParams;
  /** Of R2. A bucket is found only in its own. */
  jurisdiction: string | undefined;
  body: Buffer;
  json: Json;
  form: () => Map<string, Buffer>;
};
type Route = [method: string, path: RegExp, answer: (call: Call) => unknown];

const paged = (all: unknown[], query: URLSearchParams) => {
  const page = Number(query.get("page") ?? 1);
  const size = Number(query.get("per_page") ?? 20);
  const info = { page, per_page: size, count: all.length, total_count: all.length, total_pages: 1 };
  return new Page(all.slice((page - 1) * size, page * size), info);
};
class Page {
  readonly body: { result: unknown; result_info: unknown };
  constructor(result: unknown, info: unknown) {
    this.body = { result, result_info: info };
  }
}

export class FakeCloudflare {
  readonly accounts: readonly FakeAccount[];
  /** What wrangler asked, as `POST /d1/database`. */
  readonly calls: string[] = [];
  readonly unknown: string[] = [];
  /** Called after a call has changed the account and before its answer. True: there is none. */
  afterChange: (call: string) => boolean = () => false;
  /** Called before each call. True: it is answered with an error of the server. */
  fails: (call: string) => boolean = () => false;
  readonly #server: Server;
  #uploads = new Map<string, Buffer>();

  constructor(accounts = 1) {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.accounts = Array.from(
      { length: accounts },
      (_, at) => new FakeAccount(`${at}a`.repeat(16)),
    );
  }

  get account(): FakeAccount {
    return found(this.accounts[0], 0, "no account");
  }

  get url(): string {
    // Safe cast: a server of TCP that has started has such an address.
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  /** Of the child processes that use it. */
  get env(): Record<string, string> {
    return { CLOUDFLARE_API_BASE_URL: `${this.url}/client/v4`, CLOUDFLARE_API_TOKEN: "token" };
  }

  async start(): Promise<this> {
    await new Promise<void>((done) => this.#server.listen(0, "127.0.0.1", done));
    return this;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const url = new URL(request.url ?? "", this.url);
    const { method = "" } = request;
    const [, id = "", path] =
      /^\/client\/v4\/accounts\/(\w+)(\/.*)$/.exec(url.pathname) ??
      (["", this.account.id, url.pathname.replace("/client/v4", "")] as const);
    const call = `${method} ${path}`;
    this.calls.push(call);
    try {
      if (this.fails(call)) throw new Refused(10013, "An unknown error has occurred", 500);
      const account = found(
        this.accounts.find((one) => one.id === id),
        7003,
        "no such account",
      );
      const form = () => partsOf(body, request.headers["content-type"] ?? "");
      const result = this.#route(method, path ?? "", {
        account,
        query: url.searchParams,
        jurisdiction: request.headers["cf-r2-jurisdiction"]?.toString(),
        body,
        form,
      });
      if (method !== "GET" && this.afterChange(call)) return void request.socket.destroy();
      if (Buffer.isBuffer(result)) return void response.end(result);
      const answer = result instanceof Page ? result.body : { result };
      const etag = createHash("md5").update(body).digest("hex");
      response.setHeader("etag", `"${etag}"`).setHeader("content-type", "application/json");
      response.end(JSON.stringify({ success: true, errors: [], messages: [], ...answer }));
    } catch (error) {
      const { code, status } = error instanceof Refused ? error : { code: 7500, status: 400 };
      const errors = [{ code, message: error instanceof Error ? error.message : String(error) }];
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify({ success: false, errors, messages: [], result: null }));
    }
  }

  #route(method: string, path: string, given: Omit<Call, "at" | "json">): unknown {
    for (const [one, pattern, answer] of [...this.#ownRoutes, ...ROUTES]) {
      const match = one === method ? pattern.exec(path) : null;
      if (match === null) continue;
      const json = () => JSON.parse(given.body.toString()) as Json;
      const at = match.slice(1).map(decodeURIComponent);
      return answer({
        ...given,
        at,
        get json() {
          return json();
        },
      });
    }
    this.unknown.push(`${method} ${path}`);
    throw new Refused(7003, `Could not route ${method} ${path}`);
  }

  readonly #ownRoutes: readonly Route[] = [
    ["GET", /^\/user$/, () => ({ id: "user", email: "deployer@example.com" })],
    ["GET", /^\/memberships$/, ({ query }) => paged(this.#memberships(), query)],
    [
      "GET",
      /^\/accounts$/,
      ({ query }) =>
        paged(
          this.#memberships().map(({ account }) => account),
          query,
        ),
    ],
    ["PUT", /^\/upload\/(.+)$/, ({ at: [name = ""], body }) => void this.#uploads.set(name, body)],
    [
      "GET",
      /^\/download\/(.+)\/(.+)$/,
      ({ at: [id, name = ""] }) => {
        const account = this.accounts.find((one) => one.id === id);
        return Buffer.from(dumpOf(found(account, 0, "no account").db(name)));
      },
    ],
    [
      "POST",
      /^\/d1\/database\/([^/]+)\/import$/,
      ({ account, at: [id = ""], json }) => {
        const [, { db }] = databaseOf(account, id);
        const common = { success: true, type: "import", at_bookmark: "b", messages: [] };
        if (json["action"] === "init") {
          const filename = String(json["etag"]);
          return { ...common, upload_url: `${this.url}/upload/${filename}`, filename };
        }
        if (json["action"] === "ingest") {
          const text = this.#uploads.get(String(json["filename"]))?.toString() ?? "";
          atomically(db, text);
        }
        const meta = {
          rows_read: 0,
          rows_written: 0,
          duration: 1,
          size_after: 1,
          changed_db: true,
        };
        return {
          ...common,
          status: "complete",
          result: { num_queries: 1, final_bookmark: "b", meta },
        };
      },
    ],
    [
      "POST",
      /^\/d1\/database\/([^/]+)\/export$/,
      ({ account, at: [id = ""] }) => {
        const [name] = databaseOf(account, id);
        const signed_url = `${this.url}/download/${account.id}/${name}`;
        const result = { filename: `${name}.sql`, signed_url };
        return {
          success: true,
          type: "export",
          status: "complete",
          at_bookmark: "b",
          result,
          messages: [],
        };
      },
    ],
  ];

  #memberships() {
    return this.accounts.map(({ id }) => ({
      id,
      account: { id, name: `Account ${id.slice(0, 2)}` },
    }));
  }
}

/** An import is one transaction. */
function atomically(db: DatabaseSync, text: string): void {
  db.exec("BEGIN");
  try {
    db.exec(text);
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}

function databaseOf(account: FakeAccount, id: string) {
  const entry = [...account.databases].find(([name, { uuid }]) => uuid === id || name === id);
  return found(entry, 7404, `The database ${id} could not be found`);
}

const workerOf = ({ account, at: [name = ""] }: Call) =>
  found(account.workers.get(name), 10007, "This Worker does not exist on your account.");
const bucketOf = ({ account, at: [name = ""], jurisdiction }: Call) => {
  const bucket = account.buckets.get(name);
  const isHere = bucket?.jurisdiction === jurisdiction;
  return found(isHere ? bucket : undefined, 10006, "The specified bucket does not exist.");
};

function shownDatabase(name: string, { uuid, location }: { uuid: string; location: string }) {
  return {
    uuid,
    name,
    version: "production",
    primary_location_hint: location,
    file_size: 1,
    num_tables: 1,
  };
}

const shownQueue = (name: string, { id, consumers }: { id: string; consumers: Json[] }) => ({
  queue_id: id,
  queue_name: name,
  created_on: "2026-01-01T00:00:00Z",
  modified_on: "2026-01-01T00:00:00Z",
  producers: [],
  consumers,
  producers_total_count: 0,
  consumers_total_count: consumers.length,
  settings: {},
});

function upload(call: Call): unknown {
  const { account, at, form } = call;
  const [name = "", way] = at;
  const metadata = JSON.parse(found(form().get("metadata"), 10021, "no metadata").toString()) as {
    bindings: Json[];
  } & Json;
  const worker: Worker = account.workers.get(name) ?? {
    secrets: {},
    versions: [],
    deployed: [],
    schedules: [],
    domains: [],
  };
  account.workers.set(name, worker);
  const earlier: Json[] = [
    ...Object.entries(worker.secrets).map(([one, text]) => ({
      name: one,
      type: "secret_text",
      text,
    })),
    ...((worker.versions.at(-1)?.metadata["bindings"] ?? []) as Json[]),
  ];
  metadata.bindings = metadata.bindings.map((binding) => {
    if (binding["type"] !== "inherit") return binding;
    const same = earlier.find((one) => one["name"] === binding["name"]);
    return found(same, 10021, `there is no ${String(binding["name"])} to inherit`);
  });
  for (const { type, name: secret, text } of metadata.bindings)
    if (type === "secret_text") worker.secrets[String(secret)] = String(text);
  const version = { id: randomUUID(), metadata };
  worker.versions.push(version);
  if (way === undefined) worker.deployed.unshift(version.id);
  return {
    id: version.id,
    etag: "etag",
    startup_time_ms: 60,
    handlers: [],
    deployment_id: version.id,
    resources: { script: { etag: "etag" } },
    metadata: { has_preview: false },
  };
}

const queueOf = ({ account, at: [id = ""] }: Call) =>
  found(
    [...account.queues.values()].find((one) => one.id === id),
    11000,
    "no such queue",
  );
const OFF = { enabled: false, previews_enabled: false };
const token = () => {
  const claims = { exp: Math.floor(Date.now() / 1_000) + 3_600 };
  return `h.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.s`;
};
const tagOf = ({ versions }: Worker) =>
  (versions.at(-1)?.metadata["migrations"] as Json | undefined)?.["new_tag"];

const shownVersion = (id: string, number: number) => ({
  id,
  number,
  metadata: {
    created_on: "2026-01-01T00:00:00Z",
    author_email: "x@example.com",
    source: "wrangler",
  },
  annotations: {},
  resources: {
    bindings: [],
    script: { etag: "etag", handlers: ["fetch"], last_deployed_from: "wrangler" },
    script_runtime: { usage_model: "standard" },
  },
});

const ROUTES: readonly Route[] = [
  ["GET", /^\/workers\/subdomain$/, () => ({ subdomain: "acme" })],
  ["GET", /^\/workers\/subdomain\/edge-preview$/, () => ({ token: token() })],
  [
    "POST",
    /^\/workers\/scripts\/([^/]+)\/edge-preview$/,
    ({ account, form }) => {
      const { bindings } = JSON.parse(
        found(form().get("metadata"), 10021, "no metadata").toString(),
      ) as { bindings: Json[] };
      for (const { service, entrypoint } of bindings)
        account.previews.push([service, entrypoint].join(" "));
      throw new Refused(10000, "The fake runs no Worker", 400);
    },
  ],
  [
    "GET",
    /^\/workers\/services\/([^/]+)$/,
    (call) => {
      const worker = workerOf(call);
      const script = {
        id: call.at[0],
        tag: "tag",
        etag: "etag",
        migration_tag: tagOf(worker),
        last_deployed_from: "wrangler",
      };
      return { id: call.at[0], default_environment: { environment: "production", script } };
    },
  ],
  [
    "GET",
    /^\/workers\/scripts\/([^/]+)\/secrets$/,
    (call) => Object.keys(workerOf(call).secrets).map((name) => ({ name, type: "secret_text" })),
  ],
  ["PUT", /^\/workers\/scripts\/([^/]+)$/, upload],
  ["POST", /^\/workers\/scripts\/([^/]+)\/(versions)$/, upload],
  [
    "GET",
    /^\/workers\/scripts\/([^/]+)\/deployments$/,
    (call) => {
      const deployments = workerOf(call).deployed.map((id) => ({
        id,
        source: "wrangler",
        strategy: "percentage",
        created_on: "2026-01-01T00:00:00Z",
        author_email: "x@example.com",
        annotations: {},
        versions: [{ version_id: id, percentage: 100 }],
      }));
      return { deployments };
    },
  ],
  [
    "POST",
    /^\/workers\/scripts\/([^/]+)\/deployments$/,
    (call) => {
      const [version] = call.json["versions"] as { version_id: string }[];
      workerOf(call).deployed.unshift(version?.version_id ?? "");
      return { id: randomUUID() };
    },
  ],
  [
    "GET",
    /^\/workers\/scripts\/([^/]+)\/versions$/,
    (call) => ({
      items: workerOf(call)
        .versions.map(({ id }, index) => shownVersion(id, index + 1))
        .toReversed(),
    }),
  ],
  [
    "GET",
    /^\/workers\/scripts\/([^/]+)\/versions\/(.+)$/,
    (call) => shownVersion(call.at[1] ?? "", 1),
  ],
  [
    "POST",
    /^\/workers\/scripts\/([^/]+)\/assets-upload-session$/,
    ({ json }) => {
      const hashes = Object.values(json["manifest"] as Record<string, { hash: string }>).map(
        ({ hash }) => hash,
      );
      return { jwt: token(), buckets: [hashes] };
    },
  ],
  ["POST", /^\/workers\/assets\/upload$/, () => ({ jwt: token() })],
  [
    "GET",
    /^\/workers\/scripts\/([^/]+)\/(?:script-)?settings$/,
    (call) => {
      const worker = workerOf(call);
      const { metadata } = worker.versions.at(-1) ?? {};
      return {
        bindings: metadata?.["bindings"] ?? [],
        migration_tag: tagOf(worker),
        tail_consumers: [],
      };
    },
  ],
  [
    "GET",
    /^\/workers\/workers\/([^/]+)$/,
    (call) => (workerOf(call), { id: call.at[0], name: call.at[0], subdomain: OFF }),
  ],
  [
    "PATCH",
    /^\/workers\/workers\/([^/]+)$/,
    (call) => (workerOf(call), { id: call.at[0], name: call.at[0], subdomain: OFF }),
  ],
  ["PATCH", /^\/workers\/scripts\/([^/]+)\/script-settings$/, (call) => (workerOf(call), {})],
  ["GET", /^\/workers\/scripts\/([^/]+)\/subdomain$/, (call) => (workerOf(call), OFF)],
  ["POST", /^\/workers\/scripts\/([^/]+)\/subdomain$/, (call) => (workerOf(call), OFF)],
  [
    "PUT",
    /^\/workers\/scripts\/([^/]+)\/schedules$/,
    (call) => {
      workerOf(call).schedules = call.json;
      return {};
    },
  ],
  [
    "POST",
    /^\/workers\/scripts\/([^/]+)\/domains\/changeset$/,
    () => ({ added: [], removed: [], updated: [], conflicting: [] }),
  ],
  [
    "PUT",
    /^\/workers\/scripts\/([^/]+)\/domains\/records$/,
    (call) => {
      workerOf(call).domains = call.json;
      return [];
    },
  ],
  [
    "PUT",
    /^\/workers\/scripts\/([^/]+)\/secrets$/,
    (call) => {
      workerOf(call).secrets[String(call.json["name"])] = String(call.json["text"]);
      return { name: call.json["name"], type: "secret_text" };
    },
  ],
  ["GET", /^\/queues\/([^/]+)\/consumers$/, (call) => queueOf(call).consumers],
  [
    "POST",
    /^\/queues\/([^/]+)\/consumers$/,
    (call) => {
      const consumer = {
        ...call.json,
        consumer_id: randomUUID(),
        script: call.json["script_name"],
      };
      queueOf(call).consumers.push(consumer);
      return consumer;
    },
  ],
  [
    "PUT",
    /^\/queues\/([^/]+)\/consumers\/(.+)$/,
    (call) => {
      const consumer = queueOf(call).consumers.find((one) => one["consumer_id"] === call.at[1]);
      return Object.assign(found(consumer, 11004, "no such consumer"), call.json);
    },
  ],
  [
    "GET",
    /^\/d1\/database\/([^/]+)\/time_travel\/bookmark$/,
    (call) => (databaseOf(call.account, call.at[0] ?? ""), { bookmark: "b" }),
  ],
  [
    "POST",
    /^\/d1\/database\/([^/]+)\/time_travel\/restore$/,
    ({ account, at: [id = ""], query }) => {
      const [name] = databaseOf(account, id);
      account.restored.push(`${name} ${query.get("bookmark")}`);
      return { bookmark: "b", previous_bookmark: "a", message: "" };
    },
  ],
  [
    "POST",
    /^\/workers\/scripts\/([^/]+)\/tails$/,
    (call) => {
      workerOf(call);
      return { id: "tail", url: "ws://127.0.0.1:1", expires_at: "2099-01-01T00:00:00Z" };
    },
  ],
  [
    "GET",
    /^\/d1\/database$/,
    ({ account, query }) => {
      const all = [...account.databases].map(([name, one]) => shownDatabase(name, one));
      const name = query.get("name");
      return paged(
        all.filter((one) => name === null || one.name === name),
        query,
      );
    },
  ],
  [
    "POST",
    /^\/d1\/database$/,
    ({ account, json }) => {
      const name = String(json["name"]);
      if (account.databases.has(name))
        throw new Refused(7502, "A database with that name already exists", 400);
      account.addDatabase(name, String(json["jurisdiction"] ?? json["primary_location_hint"]));
      return shownDatabase(...databaseOf(account, name));
    },
  ],
  [
    "GET",
    /^\/d1\/database\/([^/]+)$/,
    ({ account, at: [id = ""] }) => shownDatabase(...databaseOf(account, id)),
  ],
  [
    "POST",
    /^\/d1\/database\/([^/]+)\/query$/,
    ({ account, at: [id = ""], json }) => {
      const [, { db }] = databaseOf(account, id);
      const statements = String(json["sql"])
        .split(";")
        .filter((text) => text.trim() !== "");
      return statements.map((text) => ({
        results: db.prepare(text).all(...((json["params"] ?? []) as string[])),
        success: true,
        meta: { duration: 1, rows_read: 1, rows_written: 0, changes: 0 },
      }));
    },
  ],
  [
    "GET",
    /^\/queues$/,
    ({ account, query }) => {
      const names = query.getAll("name");
      const all = [...account.queues].filter(
        ([name]) => names.length === 0 || names.includes(name),
      );
      return paged(
        all.map(([name, one]) => shownQueue(name, one)),
        query,
      );
    },
  ],
  [
    "POST",
    /^\/queues$/,
    ({ account, json }) => {
      const name = String(json["queue_name"]);
      if (account.queues.has(name)) throw new Refused(11009, "Queue name is already taken", 400);
      const { jurisdiction } = json;
      const one = { id: randomUUID().replaceAll("-", ""), consumers: [], jurisdiction };
      account.queues.set(name, one);
      return shownQueue(name, one);
    },
  ],
  [
    "GET",
    /^\/r2\/buckets\/([^/]+)$/,
    (call) => ({
      name: call.at[0],
      ...bucketOf(call),
      creation_date: "2026-01-01T00:00:00Z",
      storage_class: "Standard",
    }),
  ],
  [
    "POST",
    /^\/r2\/buckets$/,
    ({ account, json, jurisdiction }) => {
      const name = String(json["name"]);
      if (account.buckets.has(name)) throw new Refused(10004, "The bucket already exists", 409);
      const location = String(json["locationHint"]);
      account.buckets.set(name, { location, rules: [], ...(jurisdiction && { jurisdiction }) });
      return { name };
    },
  ],
  ["GET", /^\/r2\/buckets\/([^/]+)\/lock$/, (call) => ({ rules: bucketOf(call).rules })],
  [
    "PUT",
    /^\/r2\/buckets\/([^/]+)\/lock$/,
    (call) => {
      bucketOf(call).rules = call.json["rules"] as Bucket["rules"];
      return {};
    },
  ],
  [
    "GET",
    /^\/r2\/buckets\/([^/]+)\/objects\/(.+)$/,
    (call) => {
      bucketOf(call);
      return found(
        call.account.objects.get(call.at.join("/")),
        10007,
        "The specified key does not exist.",
      );
    },
  ],
  [
    "PUT",
    /^\/r2\/buckets\/([^/]+)\/objects\/(.+)$/,
    (call) => {
      const { rules } = bucketOf(call);
      const name = call.at.join("/");
      if (
        call.account.objects.has(name) &&
        rules.some(({ prefix }) => call.at[1]?.startsWith(prefix))
      )
        throw new Refused(10069, "The object is locked by the bucket's policy", 409);
      call.account.objects.set(name, call.body);
      return {};
    },
  ],
];

/** As D1 exports: tables with their rows, then the rest. It rounds what JavaScript cannot hold. */
function dumpOf(db: DatabaseSync): string {
  const literal = (value: unknown) =>
    typeof value === "string"
      ? `'${value.replaceAll("'", "''")}'`
      : value instanceof Uint8Array
        ? `X'${Buffer.from(value).toString("hex")}'`
        : value === null
          ? "NULL"
          : String(Number(value));
  const objects = db
    .prepare(
      "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'",
    )
    .all();
  const lines = objects
    .filter(({ type }) => type === "table")
    .flatMap(({ name, sql }) => {
      const rows = db.prepare(`SELECT * FROM "${String(name)}"`);
      rows.setReadBigInts(true);
      const inserts = rows
        .all()
        .map(
          (row) =>
            `INSERT INTO "${String(name)}" VALUES(${Object.values(row).map(literal).join(",")});`,
        );
      return [`${String(sql)};`, ...inserts];
    });
  const rest = objects.filter(({ type }) => type !== "table").map(({ sql }) => `${String(sql)};`);
  return ["PRAGMA defer_foreign_keys=TRUE;", ...lines, ...rest].join("\n");
}

/** The parts of a form by their names. */
function partsOf(body: Buffer, type: string): Map<string, Buffer> {
  const [, boundary = ""] = /boundary="?([^";]+)/.exec(type) ?? [];
  const separator = Buffer.from(`--${boundary}`);
  const parts = new Map<string, Buffer>();
  for (let at = body.indexOf(separator); at >= 0;) {
    const end = body.indexOf(separator, at + separator.length);
    if (end < 0) break;
    const part = body.subarray(at + separator.length + 2, end - 2);
    const head = part.indexOf("\r\n\r\n");
    const [, name = ""] = /name="([^"]+)"/.exec(part.subarray(0, head).toString()) ?? [];
    parts.set(name, part.subarray(head + 4));
    at = end;
  }
  return parts;
}
