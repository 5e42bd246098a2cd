/**
 * Who is signed in, and what reads and calls the service in their name. The session lives in memory
 * and is handed to the console's other tabs. A reload signs out, unless the person chose to stay.
 */
import { Client, type Pages, type Session } from "@rfq-custody/client";
import { useQuery, useQueryClient, type UseQueryOptions } from "@tanstack/react-query";
import {
  createContext,
  type ReactNode,
  use,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { forget, type Kept, keep, kept, shareWithTabs } from "./kept-session.ts";

export type Credentials = { email: string; password: string };
type Signed = Kept & { client: Client };

type SessionState = Signed & {
  /** Logs in again as the same user and keeps everything that is shown. */
  renew: (credentials: Omit<Credentials, "email">) => Promise<void>;
  /** Goes on with another session of the same user. */
  replace: (session: Session) => void;
  signOut: () => void;
};

type DoorState = {
  signed: SessionState | null;
  /** Whether another tab may still hand its session over. */
  asking: boolean;
  /** With `isNew` it makes the account first. `stay`: over a reload of this tab. */
  signIn: (credentials: Credentials, how: { isNew?: boolean; stay?: boolean }) => Promise<void>;
};

const Door = createContext<DoorState | null>(null);

const guest = () => new Client({ baseUrl: location.origin });
/** Reads what everybody may. */
export const visitor = guest();
const withClient = (of: Kept): Signed => ({ ...of, client: guest().withSession(of.session) });

export function SessionProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [signed, setSigned] = useState<Signed | null>(() => {
    const found = kept();
    return found === null ? null : withClient(found);
  });
  const [asking, setAsking] = useState(signed === null);
  const lastEmail = useRef(signed?.email);
  const change = useCallback(
    (next: Kept | null) => {
      // What one user read is not shown to another.
      if (lastEmail.current !== next?.email) queries.clear();
      lastEmail.current = next?.email;
      setAsking(false);
      setSigned(next === null ? null : withClient(next));
    },
    [queries],
  );
  const tabs = useMemo(() => shareWithTabs(change), [change]);
  useEffect(() => tabs.ask(() => setAsking(false)), [tabs]);
  useEffect(() => tabs.has(signed), [tabs, signed]);
  const state = useMemo<DoorState>(() => {
    const begin = (next: Kept) => {
      keep(next);
      change(next);
      tabs.tell(next);
    };
    const logIn = async ({ email, ...rest }: Credentials) =>
      begin({ email, session: await guest().auth.login({ email, ...rest }) });
    return {
      asking,
      signIn: async (credentials, { isNew = false, stay = false }) => {
        keep.chosen = stay;
        if (!isNew) return logIn(credentials);
        const session = await guest().auth.register(credentials);
        begin({ email: credentials.email, session });
      },
      signed: signed && {
        ...signed,
        renew: (credentials) => logIn({ email: signed.email, ...credentials }),
        replace: (session) => begin({ email: signed.email, session }),
        signOut: () => {
          forget();
          change(null);
          tabs.tell(null);
        },
      },
    };
  }, [signed, asking, change, tabs]);
  return <Door value={state}>{children}</Door>;
}

/** For visitors too. */
export function useDoor(): DoorState {
  const state = use(Door);
  if (state === null) throw new Error("There is no provider.");
  return state;
}

export function useSession(): SessionState {
  const { signed } = useDoor();
  if (signed === null) throw new Error("Nobody is signed in.");
  return signed;
}

/** The client of who is signed in, or one for what everybody may read. */
export function useClient(): Client {
  return useDoor().signed?.client ?? visitor;
}

/** With `keepPreviousData` as placeholder, what another key has read is shown until this one is. */
type Options<T> = Pick<UseQueryOptions<T>, "placeholderData"> & {
  enabled?: boolean;
  refetchEvery?: number | false | ((data: T) => number | false);
  /** Hardly changes: it is read once a minute at most. */
  rare?: boolean;
  /** The page is of use without it. Otherwise a failure takes the place of what is read. */
  optional?: boolean;
};

/**
 * Undefined until it is read. A failed first reading is thrown to the `Place` around it.
 * live/live.tsx makes it old by the first part of its key.
 */
export function useRead<T>(
  queryKey: readonly unknown[],
  read: (client: Client) => Promise<T>,
  options: Options<T> = {},
): T | undefined {
  const { enabled = true, refetchEvery = false, rare, optional, ...placeholder } = options;
  const client = useClient();
  return useQuery({
    queryKey,
    queryFn: () => read(client),
    enabled,
    throwOnError: (_, { state }) => optional !== true && state.data === undefined,
    ...(rare === true ? { staleTime: 60_000 } : {}),
    ...placeholder,
    refetchInterval: ({ state: { data } }) => {
      if (typeof refetchEvery !== "function") return refetchEvery;
      return data === undefined ? false : refetchEvery(data);
    },
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

/** Enough for any person. Beyond them a page says that it is cut. */
const PAGES = 5;

export type Whole<T> = { readonly items: readonly T[]; readonly isCut: boolean };

/** A list of which a sum or a search is made, with whether its end was reached. */
export function useWhole<T>(
  queryKey: readonly unknown[],
  read: (client: Client) => Pages<T>,
  { pages = PAGES, ...options }: Options<Whole<T>> & { pages?: number } = {},
): Whole<T> | undefined {
  return useRead<Whole<T>>(
    [...queryKey, pages],
    async (client) => {
      const items: T[] = [];
      let cursor: string | undefined;
      for (let count = 0; count < pages; count++) {
        const page = await read(client).page(cursor);
        items.push(...page.items);
        if (page.next_cursor === null) return { items, isCut: false };
        cursor = page.next_cursor;
      }
      return { items, isCut: true };
    },
    options,
  );
}

/** Makes a call, then reads again what it changed. */
export function useAct(...changed: readonly string[]) {
  const client = useClient();
  const queries = useQueryClient();
  return async <T,>(act: (client: Client) => Promise<T>): Promise<T> => {
    const result = await act(client);
    await Promise.all(changed.map((name) => queries.invalidateQueries({ queryKey: [name] })));
    return result;
  };
}
