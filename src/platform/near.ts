/**
 * The only place that opens Durable Objects. The platform creates an object near its first caller
 * and never moves it. They mostly call D1, so BOOK_LOCATION names D1's region for new ones.
 */
import { config } from "./config.ts";

type Options = { locationHint?: DurableObjectLocationHint };
type Namespace<Stub> = { getByName(name: string, options?: Options): Stub };

/** The object of a name. `env` contains the settings. */
export function near<Stub>(env: object, objects: Namespace<Stub>, name: string): Stub {
  const { BOOK_LOCATION: locationHint } = config(env);
  return objects.getByName(name, locationHint === "" ? {} : { locationHint });
}
