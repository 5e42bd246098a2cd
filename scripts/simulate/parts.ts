/** Builds the parts of a simulated deployment and connects them. */
import { History } from "../../src/archive/history-object.ts";
import { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { Cron } from "../../src/cron.ts";
import { Payer } from "../../src/custody/payer/payer.ts";
import { ChainWatcher } from "../../src/custody/watcher/chain-watcher.ts";
import { Feed } from "../../src/feeds/feed.ts";
import { RfqBook } from "../../src/rfq/rfq-book.ts";
import { Approvals } from "./approvals.ts";
import { Bucket } from "./bucket.ts";
import { Calls } from "./calls.ts";
import { Credentials } from "./credentials.ts";
import { Custody } from "./custody.ts";
import { Database } from "./database.ts";
import { Objects } from "./objects.ts";
import { OldRecords } from "./old-records.ts";
import { Operating } from "./operating.ts";
import { People } from "./people.ts";
import { Safeguards } from "./safeguards.ts";
import type { Scene } from "./scene.ts";
import { Sealing } from "./sealing.ts";
import { settings } from "./settings.ts";
import { Streaming } from "./streaming.ts";
import { Trading } from "./trading.ts";
import type { VirtualTime } from "./virtual-time.ts";

export type Parts = ReturnType<typeof partsOf>;

export function partsOf(
  time: VirtualTime,
  seed: string,
  work: Pick<Scene, "start" | "finish" | "fail">,
) {
  const database = new Database(time);
  const objects = new Objects(time, seed);
  const bucket = new Bucket(time);
  const env = asEnv({
    ...settings(),
    DB: database.binding(),
    RFQ_BOOK: objects.namespace("RfqBook"),
    FEED: objects.namespace("Feed"),
    CHAIN_WATCHER: objects.namespace("ChainWatcher"),
    PAYER: objects.namespace("Payer"),
    SEALER: objects.namespace("Sealer"),
    HISTORY: objects.namespace("History"),
    CRON: objects.namespace("Cron"),
    ARCHIVE: bucket.binding(),
    WITHDRAWALS: { send: (body: unknown) => custody.queue().send(body) },
    // Whether the heads of the audit log are stored changes nothing that the simulator checks.
    AUDIT: { list: async () => ({ objects: [] }), put: async () => null },
  });
  objects.use({ RfqBook, Feed, ChainWatcher, Payer, Sealer, History, Cron }, env);
  const [people, calls] = [new People(), new Calls()];
  const shared = { time, seed, env, database, people, calls, ...work };
  const scene: Scene = { ...shared, credentials: new Credentials(shared) };
  const custody = new Custody(scene);
  const old = new OldRecords(scene);
  const streaming = new Streaming(scene);
  const others = {
    trading: new Trading(scene, old),
    sealing: new Sealing(scene, bucket),
    operating: new Operating(scene, custody),
    safeguards: new Safeguards(scene, streaming.subscribers),
    approvals: new Approvals(scene),
  };
  return {
    database,
    objects,
    bucket,
    env,
    scene,
    people,
    calls,
    custody,
    old,
    streaming,
    ...others,
  };
}

/** Safe cast: the service reads these bindings only; a missing one fails its first use. */
function asEnv(bindings: object): Env {
  return bindings as Env;
}
