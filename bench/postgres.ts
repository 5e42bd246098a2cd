/** PostgreSQL as a peer, with `pgbench` as its clients. */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const BIN = [17, 16, 15]
  .map((version) => `/usr/lib/postgresql/${version}/bin`)
  .find((path) => existsSync(path));

type Load = {
  readonly clients: number;
  readonly seconds: number;
  /** Commits return before they are on the disk. */
  readonly lazy?: boolean;
};
type Postgres = {
  /**
   * Transactions per second. Each client repeats the script of pgbench on a connection of its own.
   */
  load: (script: string, load: Load) => Promise<number>;
  stop: () => void;
};

/**
 * Starts a cluster in the temporary directory with Debian's defaults (synchronous_commit on, fsync
 * on). Undefined, with a message, if PostgreSQL is not installed.
 */
export function startPostgres(schema: string): Postgres | undefined {
  if (BIN === undefined) {
    console.log(
      "PostgreSQL is not installed (apt-get install postgresql), so its figures are omitted.",
    );
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "bench-postgres-"));
  const asPostgres = process.getuid?.() === 0;
  chmodSync(folder, 0o755);
  if (asPostgres) chownSync(folder, userId("-u"), userId("-g"));
  const run = (program: string, args: readonly string[]): void => {
    const [file, all] = asPostgres
      ? ["runuser", ["-u", "postgres", "--", join(BIN, program), ...args]]
      : [join(BIN, program), [...args]];
    execFileSync(file, all, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  };
  const data = join(folder, "data");
  const sockets = `-c listen_addresses= -c unix_socket_directories=${folder}`;
  const stop = () => {
    run("pg_ctl", ["-D", data, "-m", "immediate", "stop"]);
    rmSync(folder, { recursive: true, force: true });
  };
  run("initdb", ["-D", data, "-A", "trust"]);
  run("pg_ctl", ["-D", data, "-w", "-l", join(folder, "log"), "-o", sockets, "start"]);
  const connect = ["-h", folder, "-U", "postgres"];
  try {
    execFileSync("psql", [...connect, "-q", "-v", "ON_ERROR_STOP=1"], { input: schema });
  } catch (error) {
    stop();
    throw error;
  }
  return {
    load: (script, load) => pgbench(join(BIN, "pgbench"), { folder, connect, script, ...load }),
    stop,
  };
}

async function pgbench(
  program: string,
  load: Load & { folder: string; connect: readonly string[]; script: string },
): Promise<number> {
  const file = join(load.folder, "load.sql");
  writeFileSync(file, load.script);
  const counts = ["-c", String(load.clients), "-j", "2", "-T", String(load.seconds)];
  const { stdout, stderr } = await promisify(execFile)(
    program,
    [...load.connect, "-n", "-M", "prepared", ...counts, "-f", file, "postgres"],
    { env: { ...process.env, PGOPTIONS: load.lazy === true ? "-c synchronous_commit=off" : "" } },
  );
  const perSecond = Number(/^tps = ([\d.]+)/m.exec(stdout)?.[1]);
  if (!(perSecond > 0)) throw new Error(`pgbench: ${stderr}`);
  return perSecond;
}

function userId(flag: "-u" | "-g"): number {
  return Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
}
