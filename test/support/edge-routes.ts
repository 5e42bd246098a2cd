/** Every route of the OpenAPI description, as the security table needs it. */
import { send } from "./edge.ts";

export type DescribedRoute = {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly credential: "public" | "any" | "session" | "api_key";
  readonly scope: "read" | "trade" | "withdraw" | undefined;
  readonly stream: boolean;
  readonly problems: readonly string[];
};

type Operation = {
  "x-credential": DescribedRoute["credential"];
  "x-scope"?: DescribedRoute["scope"];
  "x-stream"?: boolean;
  responses: Record<string, { description: string }>;
};

export async function describedRoutes(): Promise<DescribedRoute[]> {
  const description = await (
    await send("/openapi.json")
  ).json<{ paths: Record<string, Record<string, Operation>> }>();
  return Object.entries(description.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: methodOf(method),
      path,
      credential: operation["x-credential"],
      scope: operation["x-scope"],
      stream: operation["x-stream"] === true,
      problems: Object.values(operation.responses).flatMap((response) =>
        [...response.description.matchAll(/`([a-z_]+)`/g)].map((match) => match[1] ?? ""),
      ),
    })),
  );
}

function methodOf(method: string): DescribedRoute["method"] {
  const upper = method.toUpperCase();
  if (upper === "GET" || upper === "POST" || upper === "DELETE") return upper;
  throw new Error(`the description has a method that the tests do not know: ${method}`);
}
