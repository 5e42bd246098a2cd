/**
 * The only place that opens Durable Objects. The platform creates an object near its first caller,
 * which may be cron on any continent, and never moves it. Nearly all that objects do are calls of
 * D1, so BOOK_LOCATION names D1's region for all objects to come.
 */
import { config } from "./config.ts";

type Namespace<Stub> = {
  getByName(name: string, options?: { locationHint?: DurableObjectLocationHint }): Stub;
};

/** The object of a name. `env` contains the settings. */
export function near<Stub>(env: object, objects: Namespace<Stub>, name: string): Stub {
  const { BOOK_LOCATION: locationHint } = config(env);
  return objects.getByName(name, locationHint === "" ? {} : { locationHint });
}
