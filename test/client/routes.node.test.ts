/** The client has a method for every route, with every field of the route. */
import { expect, it } from "vitest";
import {
  callsWithoutSignal,
  observeCalls,
  readDescription,
  repeatedRoutes,
  routesOf,
} from "../support/node/client-calls.ts";

const routes = routesOf(readDescription());
const calls = await observeCalls(routes);

it.each(routes)("has a method for $name", ({ name }) => {
  expect(calls.map(({ route }) => route)).toContain(name);
});

it.each(routes)("sends the fields of $name and no others", ({ name, fields }) => {
  const sent = calls.filter(({ route }) => route === name).flatMap((call) => call.fields);
  expect([...new Set(sent)].toSorted()).toEqual(Object.keys(fields).toSorted());
});

it("calls only routes of the description", () => {
  const known = new Set(routes.map(({ name }) => name));
  expect(calls.filter(({ route }) => !known.has(route))).toEqual([]);
});

it("every method takes a signal", async () => {
  expect(await callsWithoutSignal(routes)).toEqual([]);
});

it("repeats a call after a lost response exactly where the description allows it", async () => {
  const allowed = routes.filter(({ repeatable }) => repeatable).map(({ name }) => name);
  const streams = ["GET /rfq/stream", "GET /account/stream"];
  const expected = allowed.filter((name) => !streams.includes(name));
  expect([...(await repeatedRoutes(routes))].toSorted()).toEqual(expected.toSorted());
});
