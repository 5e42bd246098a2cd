/** An account of Cloudflare in a file, with the commands of wrangler that the deployment uses. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { migrationFiles, readMigration } from "../../scripts/migrations/files.ts";
import type { Run } from "../../scripts/deploy/wrangler.ts";
import type { Ran } from "../../scripts/stack/run-child.ts";
import { OWN_OBJECTS } from "../../src/platform/schema-text.ts";

type State = {
  databases: Record<string, string>;
  queues: string[];
  buckets: Record<string, { location: string; locks: string[] }>;
  worker?: { config: Record<string, unknown>; secrets: Record<string, string> };
};

export const DATABASE_ID = "11111111-1111-4111-8111-111111111111";
const RECORD = `CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`;

const done = (stdout = ""): Ran => ({ code: 0, stdout, stderr: "" });
const failed = (stderr: string): Ran => ({ code: 1, stdout: "", stderr });

export class Account {
  readonly #path: string;
  calls = 0;
  killAt: { call: number; when: "before" | "after" } | undefined;
  /** The migration at which the server's splitter fails, after so many of its statements. */
  unsplittable: { file: string; applies: 0 | 1 } | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  readonly run: Run = async (args) => {
    const call = ++this.calls;
    if (this.killAt?.call === call && this.killAt.when === "before") throw new Error("killed");
    const ran = this.#execute(args.slice(0, args.indexOf("--config") >>> 0), args);
    if (this.killAt?.call === call) throw new Error("killed");
    return ran;
  };

  database(name: string): DatabaseSync {
    const db = new DatabaseSync(`${this.#path}.${name}.sqlite`);
    db.exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
    return db;
  }

  secrets(): Record<string, string> {
    return this.#read().worker?.secrets ?? {};
  }

  removeWorker(): void {
    this.#change((state) => delete state.worker);
  }

  /** Everything but the values of secrets. */
  shown(): unknown {
    const { worker, databases, ...state } = this.#read();
    const schemas = Object.keys(databases).map((name) => {
      const db = this.database(name);
      return [name, db.prepare(OWN_OBJECTS).all().length, count(db)];
    });
    return {
      ...state,
      schemas,
      config: worker?.config,
      secrets: Object.keys(worker?.secrets ?? {}),
    };
  }

  #execute(args: readonly string[], all: readonly string[]): Ran {
    const words = args.filter((word) => !word.startsWith("--"));
    const after = (flag: string) => all[all.indexOf(flag) + 1] ?? "";
    const state = this.#read();
    const [name = ""] = words.slice(words[0] === "r2" ? 3 : 2);
    switch (words.slice(0, words[0] === "r2" ? 3 : 2).join(" ")) {
      case "d1 list":
        return done(
          JSON.stringify(
            Object.entries(state.databases).map(([one, uuid]) => ({ name: one, uuid })),
          ),
        );
      case "d1 create":
        if (name in state.databases) return failed("exists");
        return this.#change((next) => (next.databases[name] = DATABASE_ID));
      case "d1 migrations":
        return this.#migrate(words[3] ?? "");
      case "d1 execute":
        return this.#query(
          name,
          all.includes("--file") ? after("--file") : undefined,
          after("--command"),
        );
      case "queues info":
        return state.queues.includes(name) ? done() : failed("unknown");
      case "queues create":
        return this.#change((next) => next.queues.push(name));
      case "r2 bucket info":
        return name in state.buckets ? done() : failed("unknown");
      case "r2 bucket create":
        return this.#change(
          (next) => (next.buckets[name] = { location: after("--location"), locks: [] }),
        );
      case "r2 bucket lock":
        if (name === "list") return done((state.buckets[words[4] ?? ""]?.locks ?? []).join("\n"));
        return this.#change((next) =>
          next.buckets[words[4] ?? ""]?.locks.push(
            `${words.slice(5, 7).join(" ")} ${all.includes("--retention-indefinite") ? "indefinite" : ""}`,
          ),
        );
      case "secret list":
        if (state.worker === undefined) return failed("no such Worker [code: 10007]");
        return done(
          JSON.stringify(Object.keys(state.worker.secrets).map((one) => ({ name: one }))),
        );
      default:
        return this.#deploy(all, after);
    }
  }

  #deploy(all: readonly string[], after: (flag: string) => string): Ran {
    if (all[0] !== "deploy") return failed(`unknown command ${all.join(" ")}`);
    const config = JSON.parse(readFileSync(after("--config"), "utf8")) as Record<string, unknown>;
    const { required } = config["secrets"] as { required: string[] };
    const file = all.includes("--secrets-file")
      ? readFileSync(after("--secrets-file"), "utf8")
      : "{}";
    const secrets = { ...this.secrets(), ...(JSON.parse(file) as Record<string, string>) };
    const missing = required.filter((name) => !(name in secrets));
    if (missing.length > 0) return failed(`secrets have not been set: ${missing.join(", ")}`);
    return this.#change((next) => (next.worker = { config, secrets }));
  }

  #migrate(name: string): Ran {
    const db = this.database(name);
    db.exec(RECORD);
    const applied = db.prepare("SELECT name FROM d1_migrations").all();
    for (const file of migrationFiles()) {
      if (applied.some((row) => row["name"] === file)) continue;
      if (this.unsplittable?.file === file) {
        if (this.unsplittable.applies > 0) db.exec("CREATE TABLE half (a)");
        return failed("incomplete input: SQLITE_ERROR [code: 7500]");
      }
      db.exec(readMigration(file));
      db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").run(file);
    }
    return done();
  }

  #query(name: string, file: string | undefined, command: string): Ran {
    const db = this.database(name);
    try {
      if (file === undefined) return done(JSON.stringify([{ results: db.prepare(command).all() }]));
      db.exec(readFileSync(file, "utf8"));
      return done();
    } catch (error) {
      return failed(String(error));
    }
  }

  #read(): State {
    if (!existsSync(this.#path)) return { databases: {}, queues: [], buckets: {} };
    return JSON.parse(readFileSync(this.#path, "utf8")) as State;
  }

  #change(change: (state: State) => unknown): Ran {
    const state = this.#read();
    change(state);
    writeFileSync(this.#path, JSON.stringify(state));
    return done();
  }
}

function count(db: DatabaseSync): unknown {
  return db.prepare("SELECT count(*) AS n FROM d1_migrations").get()?.["n"];
}
