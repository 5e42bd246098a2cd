import { expect, it } from "vitest";
import * as z from "zod";
import { createApp } from "../../src/app.ts";

it.each(createApp().documented.map((route) => [`${route.method} ${route.path}`, route] as const))(
  "%s takes input where its method may have it, and nothing unknown",
  (_, { method, query, body, fields }) => {
    const places = Object.entries({ query, body, fields }).filter(([, schema]) => schema);
    const allowed = { get: ["query"], post: ["query", "body"], delete: ["fields"] }[method];
    expect(allowed).toEqual(expect.arrayContaining(places.map(([place]) => place)));
    for (const [, schema] of places)
      if (schema instanceof z.ZodObject) expect(schema.def.catchall).toBeInstanceOf(z.ZodNever);
  },
);
