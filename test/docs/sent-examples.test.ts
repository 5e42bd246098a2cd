/** Sends every published example of the OpenAPI description. None may be invalid input. */
import { describe, expect, it } from "vitest";
import { bearer, describedRoutes, send, sendSigned } from "../support/http.ts";
import { newKey, newUser } from "../support/users.ts";

type Parameter = { name: string; in: string; example?: unknown; required?: boolean };
type Body = { schema: object; example?: unknown };

/** Reports that come before the input is checked, or reject it. */
const NOT_ACCEPTED: readonly unknown[] = [
  "invalid_request",
  "unsupported_media_type",
  "scope_missing",
  "session_required",
  "api_key_required",
  "signature_invalid",
];

const operations = (await describedRoutes()).filter(({ stream }) => !stream);

/** The target with the required parameters and each optional one in turn. */
function targetsOf(path: string, parameters: readonly Parameter[]): string[] {
  // A list accepts only its own cursors, and a cursor is opaque.
  const inQuery = parameters.filter((each) => each.in === "query" && each.name !== "last_cursor");
  const examples = new Map(inQuery.map(({ name, example }) => [name, String(example)]));
  const required = inQuery.filter((each) => each.required === true).map(({ name }) => name);
  const sets = [...examples.keys()].map((name) => {
    // An asset id is unique only within its venue.
    const isAsset = name === "asset_id" || name === "assets";
    const venue = isAsset && examples.has("venue_id") ? ["venue_id"] : [];
    return [...new Set([...required, ...venue, name])];
  });
  return (sets.length === 0 ? [required] : sets).map((names) => {
    const query = new URLSearchParams(names.map((name) => [name, examples.get(name) ?? ""]));
    return names.length === 0 ? path : `${path}?${query.toString()}`;
  });
}

it.each(operations)(
  "$method $path accepts its examples",
  async ({ method, path, credential, operation }) => {
    const content: Body | undefined = operation.requestBody?.content["application/json"];
    // A name that nobody resolves holds up the thread of all tests.
    const example = JSON.stringify(content?.example)?.replace(
      "https://hooks",
      "http://127.0.0.1:9/",
    );
    const body = example === undefined ? {} : { body: example };
    for (const target of targetsOf(path, operation.parameters ?? [])) {
      const user = await newUser();
      const type = { "content-type": "application/json" };
      const response =
        credential === "api_key"
          ? await sendSigned(await newKey(user, ["read", "trade", "withdraw"]), target, {
              method,
              ...body,
            })
          : await send(target, { method, ...body, headers: { ...bearer(user.token), ...type } });
      const text = await response.text();
      const isProblem = response.headers.get("content-type") === "application/problem+json";
      const code: unknown = isProblem ? JSON.parse(text).code : null;
      expect(NOT_ACCEPTED, `${target}: ${text}`).not.toContain(code);
      expect(response.status).not.toBe(400);
    }
  },
);

describe("the check itself", () => {
  it("covers bodies and queries, also with required parameters", () => {
    expect(operations.length).toBeGreaterThan(50);
    const parameters = [
      { name: "request_id", in: "query", example: "r", required: true },
      { name: "limit", in: "query", example: 5 },
      { name: "last_cursor", in: "query", example: "c" },
    ];
    expect(targetsOf("/p", parameters)).toEqual(["/p?request_id=r", "/p?request_id=r&limit=5"]);
  });
});
