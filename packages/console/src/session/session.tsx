/** Who is signed in. The session lives in memory only, so a reload signs out. */
import { Client, type Session } from "@rfq-custody/client";
import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useMemo, useState } from "react";

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
const SignInContext = createContext<((credentials: Credentials) => Promise<void>) | null>(null);

const guest = () => new Client({ baseUrl: location.origin });
const visitor = guest();

async function logIn({ email, ...rest }: Credentials): Promise<Signed> {
  const session = await guest().auth.login({ email, ...rest });
  return { email, session, client: guest().withSession(session) };
}

type SessionProviderProps = { signedOut: ReactNode; children: ReactNode };

export function SessionProvider({ signedOut, children }: SessionProviderProps) {
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
    return <SignInContext value={signIn}>{signedOut}</SignInContext>;
  }
  return <SignedIn value={state}>{children}</SignedIn>;
}

export function useSession(): SessionState {
  const state = use(SignedIn);
  if (state === null) throw new Error("Nobody is signed in.");
  return state;
}

export function useIsSignedIn(): boolean {
  return use(SignedIn) !== null;
}

/** The client of who is signed in, or one for what everybody may read. */
export function useClient(): Client {
  return use(SignedIn)?.client ?? visitor;
}

export function useSignIn(): (credentials: Credentials) => Promise<void> {
  const signIn = use(SignInContext);
  if (signIn === null) throw new Error("Somebody is signed in.");
  return signIn;
}
