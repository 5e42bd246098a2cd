/**
 * Who is signed in, and what reads and calls the service in their name. The session lives in memory
 * only, so a reload signs out.
 */
import { Client, type Pages, type Session } from "@rfq-custody/client";
import { useQuery, useQueryClient, type UseQueryOptions } from "@tanstack/react-query";
import { type ComponentType, createContext, type ReactNode, use, useMemo, useState } from "react";

export type Credentials = { email: string; password: string };

type Signed = { email: string; session: Session; client: Client };

type SessionState = Signed & {
  /** Logs in again as the same user and keeps everything that is shown. */
  renew: (credentials: Omit<Credentials, "email">) => Promise<void>;
  /** Goes on with another session of the same user. */
  replace: (session: Session) => void;
  signOut: () => void;
};

const SignedIn = createContext<SessionState | null>(null);

const guest = () => new Client({ baseUrl: location.origin });
const visitor = guest();

async function logIn({ email, ...rest }: Credentials): Promise<Signed> {
  const session = await guest().auth.login({ email, ...rest });
  return { email, session, client: guest().withSession(session) };
}

export type SignedOutProps = { signIn: (credentials: Credentials) => Promise<void> };
type SessionProviderProps = { SignedOut: ComponentType<SignedOutProps>; children: ReactNode };

export function SessionProvider({ SignedOut, children }: SessionProviderProps) {
  const queries = useQueryClient();
  const [signed, setSigned] = useState<Signed | null>(null);
  const state = useMemo<SessionState | null>(() => {
    if (signed === null) return null;
    return {
      ...signed,
      renew: async (credentials) => setSigned(await logIn({ email: signed.email, ...credentials })),
      replace: (session) => setSigned({ ...signed, session, client: guest().withSession(session) }),
      signOut: () => {
        // Only this page had the token, and the service ends the session when it expires.
        setSigned(null);
        queries.clear();
      },
    };
  }, [signed, queries]);
  if (state === null) {
    const signIn = async (credentials: Credentials) => {
      const session = await logIn(credentials);
      queries.clear();
      setSigned(session);
    };
    return <SignedOut signIn={signIn} />;
  }
  return <SignedIn value={state}>{children}</SignedIn>;
}

export function useSession(): SessionState {
  const state = use(SignedIn);
  if (state === null) throw new Error("Nobody is signed in.");
  return state;
}

/** The client of who is signed in, or one for what everybody may read. */
export function useClient(): Client {
  return use(SignedIn)?.client ?? visitor;
}

/** With `keepPreviousData` as placeholder, what another key has read is shown until this one is. */
type Options<T> = Pick<UseQueryOptions<T>, "placeholderData"> & {
  enabled?: boolean;
  refetchEvery?: number | false | ((data: T) => number | false);
  /** Hardly changes: it is read once a minute at most. */
  rare?: boolean;
};

/** Undefined until it is read. live/live.tsx makes it old by the first part of its key. */
export function useRead<T>(
  queryKey: readonly unknown[],
  read: (client: Client) => Promise<T>,
  { enabled = true, refetchEvery = false, rare = false, ...placeholder }: Options<T> = {},
): T | undefined {
  const client = useClient();
  return useQuery({
    queryKey,
    queryFn: () => read(client),
    enabled,
    ...(rare ? { staleTime: 60_000 } : {}),
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
