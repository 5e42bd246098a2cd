/**
 * The only place that opens Durable Objects. The platform creates an object near its first caller,
 * which may be cron on any continent, and never moves it. So BOOK_LOCATION should name D1's region.
 */
import { config } from "./config.ts";

type Options = { locationHint?: DurableObjectLocationHint };
type Named<Stub> = { getByName(name: string, options?: Options): Stub };
type Namespace<Stub> = Named<Stub> & { jurisdiction(of: "eu" | "fedramp"): Named<Stub> };

/** The object of a name. `env` contains the settings. */
export function near<Stub>(env: object, objects: Namespace<Stub>, name: string): Stub {
  const { BOOK_LOCATION: locationHint, JURISDICTION } = config(env);
  const there = JURISDICTION === "" ? objects : objects.jurisdiction(JURISDICTION);
  return there.getByName(name, locationHint === "" ? {} : { locationHint });
}
