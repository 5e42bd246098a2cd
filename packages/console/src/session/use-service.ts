/** Reads and acts by the client of who is signed in. */
import type { Client, Pages } from "@rfq-custody/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useClient } from "./session.tsx";

type Options<T> = {
  enabled?: boolean;
  refetchEvery?: (data: T) => number | false;
  /** Hardly changes: it is read once a minute at most. */
  rare?: boolean;
};

/** Undefined until it is read. live/live.tsx makes it old by the first part of its key. */
export function useRead<T>(
  queryKey: readonly unknown[],
  read: (client: Client) => Promise<T>,
  { enabled = true, refetchEvery, rare = false }: Options<T> = {},
): T | undefined {
  const client = useClient();
  return useQuery({
    queryKey,
    queryFn: () => read(client),
    enabled,
    ...(rare ? { staleTime: 60_000 } : {}),
    refetchInterval: ({ state: { data } }) =>
      data === undefined ? false : (refetchEvery?.(data) ?? false),
  }).data;
}

/** The first page of a list. */
export function useList<T>(
  queryKey: readonly unknown[],
  read: (client: Client) => Pages<T>,
  options?: Options<readonly T[]>,
): readonly T[] | undefined {
  return useRead(queryKey, async (client) => (await read(client).page()).items, options);
}

/** Makes a call, then reads again what it changed. */
export function useAct(...changed: readonly string[]) {
  const client = useClient();
  const queries = useQueryClient();
  return async <T>(act: (client: Client) => Promise<T>): Promise<T> => {
    const result = await act(client);
    await Promise.all(changed.map((name) => queries.invalidateQueries({ queryKey: [name] })));
    return result;
  };
}
