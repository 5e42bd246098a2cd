/** Opens every Durable Object. New ones are created near D1, because an object never moves. */
import { config } from "./config.ts";

type Options = { locationHint?: DurableObjectLocationHint };
type Namespace<Stub> = { getByName(name: string, options?: Options): Stub };

/** The object of a name. `env` contains the settings. */
export function near<Stub>(env: object, objects: Namespace<Stub>, name: string): Stub {
  const { BOOK_LOCATION: locationHint } = config(env);
  return objects.getByName(name, locationHint === "" ? {} : { locationHint });
}
